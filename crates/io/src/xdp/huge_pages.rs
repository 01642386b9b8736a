//! Tests if memory has huge pages, from /proc/self/smaps (proc_pid_smaps(5)).

use std::fs::File;
use std::io::{BufRead, BufReader};

/// True if all of `length` bytes from `start` on are known to be in pages larger than the processor's smallest.
pub(super) fn is_backed(start: usize, length: usize) -> bool {
    File::open("/proc/self/smaps").is_ok_and(|file| is_huge(BufReader::new(file), start, length))
}

/// The same, from the lines of smaps: the attributes of a mapping follow the line with its addresses.
fn is_huge(smaps: impl BufRead, start: usize, length: usize) -> bool {
    let (mut huge, mut inside) = (0, 0);
    for line in smaps.lines().map_while(Result::ok) {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        if let Some((from, to)) = addresses(first) {
            inside = to.min(start + length).saturating_sub(from.max(start));
        }
        let size = words.next().and_then(|size| size.parse::<usize>().ok()).unwrap_or(0) << 10;
        if inside > 0 {
            huge += match first {
                // Sizes of the whole mapping: the kernel does not report where in it the huge pages are.
                "AnonHugePages:" | "ShmemPmdMapped:" => size,
                // Some architectures have ordinary pages of up to 64 KB.
                "KernelPageSize:" if size > 64 << 10 => inside,
                _ => 0,
            };
        }
    }
    length > 0 && huge >= length
}

/// `7f0000000000-7f0000200000`.
fn addresses(word: &str) -> Option<(usize, usize)> {
    let (from, to) = word.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_counts_as_huge_only_where_all_of_it_is() {
        let smaps = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
KernelPageSize:        4 kB
AnonHugePages:      4096 kB
7f0000400000-7f0000600000 rw-p 00000000 00:00 0
KernelPageSize:        4 kB
AnonHugePages:         0 kB
7f0000600000-7f0000800000 rw-s 00000000 00:0f 123 /anon_hugepage (deleted)
KernelPageSize:     2048 kB
AnonHugePages:         0 kB
";
        let huge = |from: usize, length: usize| is_huge(smaps.as_bytes(), 0x7f00_0000_0000 + from, length);
        assert!(huge(0, 4 << 20) && huge(2 << 20, 1 << 20) && huge(6 << 20, 2 << 20));
        assert!(!huge(0, 5 << 20) && !huge(4 << 20, 1 << 20) && !huge(8 << 20, 4096) && !huge(0, 0));
    }

    #[test]
    fn fresh_memory_is_not_reported_as_huge() {
        let memory = vec![1u8; 10_000];
        assert!(!is_backed(memory.as_ptr().addr(), memory.len()));
    }
}
