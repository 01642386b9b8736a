//! The verdict about a run.

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every reservation was kept.
    Kept,
    /// One was not, and the machine did not run the router or a sender for some time, as the text says: the run proves nothing.
    Disturbed(String),
    /// One was not, as the text says.
    Broken(String),
}

impl Verdict {
    /// The verdict about a run with these broken reservations, and with this disturbance by the machine.
    pub fn of(broken: &[String], disturbance: Option<String>) -> Verdict {
        match (broken.join("; "), disturbance) {
            (broken, _) if broken.is_empty() => Verdict::Kept,
            (broken, Some(disturbance)) => Verdict::Disturbed(format!("{broken}; {disturbance}")),
            (broken, None) => Verdict::Broken(broken),
        }
    }
}
