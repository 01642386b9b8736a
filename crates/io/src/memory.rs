//! The available memory of the machine.

use std::fs;
use units::Bytes;

/// Memory that programs can allocate without swapping (proc(5), `MemAvailable`). `None` if the kernel does not report it.
pub fn available() -> Option<Bytes> {
    in_meminfo(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn in_meminfo(text: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::new(kilobytes * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_from_the_kernels_text() {
        let text = "MemTotal:       24598964 kB\nMemFree:         9000000 kB\nMemAvailable:   16777216 kB\n";
        assert_eq!(in_meminfo(text), Some(Bytes::new(16 << 30)));
        for wrong in ["", "MemAvailable:", "MemAvailable: many kB", "MemAvailable: 7 MB"] {
            assert_eq!(in_meminfo(wrong), None, "{wrong}");
        }
        assert!(available().is_none_or(|left| left > Bytes::new(1 << 20)));
    }
}
