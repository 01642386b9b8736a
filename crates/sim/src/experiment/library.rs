//! The experiments that come with Switchpath. They are compiled into the program, so that they run from anywhere.

/// A file of an experiment: the experiment itself, or a file that several share.
#[derive(Clone, Copy, Debug)]
pub struct ExperimentFile {
    /// The folder, which is the paper.
    pub paper: &'static str,
    /// The name of the file.
    pub file: &'static str,
    /// Its content.
    pub text: &'static str,
}

/// The files of a folder under `experiments/`.
macro_rules! folder {
    ($paper:literal: $($file:literal)*) => {
        &[$(ExperimentFile {
            paper: $paper,
            file: $file,
            text: include_str!(concat!("../../../../experiments/", $paper, "/", $file)),
        }),*]
    };
}

const SCHEDULING: &[ExperimentFile] = folder!("scheduling":
    "three.toml"
    "three.derive.toml"
    "thirteen.toml"
    "E1.toml"
    "E2.toml"
    "E3.toml"
    "E4.toml"
    "E5.toml"
    "E6.toml"
    "E7.toml"
    "E8.toml"
    "E9.toml"
    "E10.toml"
    "E11.toml"
    "E12.toml"
    "E13.toml"
    "charge.toml"
    "single.toml"
);

const QUEUEING: &[ExperimentFile] = folder!("queueing":
    "dumbbell.toml"
    "dumbbell.derive.toml"
    "NX1.toml"
    "NX2.toml"
    "NX3.toml"
    "NX4.toml"
    "NX5.toml"
    "NX6.toml"
    "NX7.toml"
    "NX8.toml"
    "NX9.toml"
    "NX10.toml"
    "NX11.toml"
    "NX12.toml"
    "NX15.toml"
    "NX16.toml"
    "NX18.toml"
    "NX20.toml"
    "models.toml"
);

const EPHEMERAL: &[ExperimentFile] = folder!("ephemeral":
    "engine.toml"
    "EX1.toml"
    "EX2.toml"
    "EX3.toml"
    "EX4.toml"
    "EX5.toml"
    "EX6.toml"
    "EX7.toml"
    "EX8.toml"
    "EX9.toml"
    "EX10.toml"
    "EX11.toml"
    "EX12.toml"
    "EX13.toml"
    "EX14.toml"
    "EX15.toml"
    "EX16.toml"
    "EX17.toml"
    "EX18.toml"
);

const PANAMA: &[ExperimentFile] = folder!("panama":
    "pipeline.toml"
    "F1.toml"
    "F3.toml"
    "F4.toml"
    "F5.toml"
    "F6.toml"
    "F7.toml"
    "F8.toml"
    "F9.toml"
    "timer.toml"
    "potential.toml"
);

const SHARING: &[ExperimentFile] = folder!("sharing":
    "borrowing.toml"
    "sites.toml"
);

const SLICES: &[ExperimentFile] = folder!("slices":
    "F7.toml"
    "F8.toml"
    "F9.toml"
    "F11.toml"
    "exceptions.toml"
    "isolation.toml"
    "filters.toml"
    "effort.toml"
    "slow-path.toml"
);

/// Every file, in the order in which experiments are run.
pub fn entries() -> impl Iterator<Item = &'static ExperimentFile> {
    SCHEDULING.iter().chain(QUEUEING).chain(EPHEMERAL).chain(PANAMA).chain(SHARING).chain(SLICES)
}
