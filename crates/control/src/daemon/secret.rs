//! The secret of a running router. Its hashes and random numbers cannot be computed without it.

/// Draws a random number from the kernel, a new one at each start.
pub(super) fn draw() -> std::io::Result<u64> {
    let mut bytes = [0u8; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    assert_eq!(filled, bytes.len(), "the kernel gives up to 256 random bytes whole");
    // Zero selects repeatable runs.
    Ok(u64::from_ne_bytes(bytes).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_start_draws_new_secret() {
        let secrets: BTreeSet<u64> = (0..1000).map(|_| draw().expect("the kernel has random numbers")).collect();
        assert_eq!(secrets.len(), 1000);
        let keys = secrets.iter().map(|&secret| plane::rig::flow_key(secret));
        assert_eq!(keys.collect::<BTreeSet<u64>>().len(), 1000, "flows are hashed with another key each time");
        assert!(!secrets.contains(&0), "zero is for runs that repeat");
    }
}
