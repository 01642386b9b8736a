//! The ingress drop as a tcx link.

use crate::bpf::instruction::{action, exit, set};
use crate::bpf::{BpfAttachment, BpfHook, BpfProgram, BpfProgramKind};
use std::io;

/// Loads the program and attaches it to the link with this index for the lifetime of the returned value.
pub(super) fn attach(index: u32) -> io::Result<BpfAttachment> {
    BpfProgram::load(BpfProgramKind::Classifier, "switchpath_drop", &[set(0, action::CLASSIFIER_DROP), exit()])?
        .attach(BpfHook::TcxIngress, index)
}
