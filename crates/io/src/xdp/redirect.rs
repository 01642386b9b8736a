//! The program that directs received frames to the sockets.

use crate::bpf::instruction::{self, action, call, context, exit, load32, set, set_map};
use crate::bpf::{BpfAttachment, BpfHook, BpfProgram, BpfProgramKind, Map, MapKind};
use std::io;
use std::os::fd::AsFd;

/// The maximum number of receive queues of an interface.
pub(super) const MOST_QUEUES: u32 = 64;

/// The program with its map of sockets, one for each receive queue. Frames of a queue without a socket continue to the host's stack.
#[derive(Debug)]
pub(super) struct Redirect {
    program: BpfProgram,
    sockets: Map,
}

impl Redirect {
    /// Loads it without attaching it.
    pub(super) fn load() -> io::Result<Redirect> {
        let sockets = Map::create(MapKind::Sockets, MOST_QUEUES)?;
        let [map, map_end] = set_map(1, &sockets);
        // The queue is read before the map replaces the context in register 1. Register 3 is the result for a queue without a socket.
        let program = [
            load32(2, 1, context::XDP_QUEUE),
            map,
            map_end,
            set(3, action::PASS),
            instruction::call(call::REDIRECT_MAP),
            exit(),
        ];
        Ok(Redirect { program: BpfProgram::load(BpfProgramKind::Xdp, "switchpath_xdp", &program)?, sockets })
    }

    /// Attaches it to the link with this index for the lifetime of the returned value.
    pub(super) fn attach(&self, hook: BpfHook, index: u32) -> io::Result<BpfAttachment> {
        self.program.attach(hook, index)
    }

    /// Directs the frames of a queue to the socket.
    pub(super) fn direct(&self, queue: u32, socket: impl AsFd) -> io::Result<()> {
        self.sockets.set_socket(queue, socket)
    }
}
