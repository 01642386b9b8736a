//! Random and mutated packets through all code options: values and diversions only, within the declared steps, and unchanged for the slow path.

use link::RandomStream;
use slice::code::CodeExercise;
use slice::code::i3::I3Workload;
use std::path::Path;

/// The inputs of the corpus: data of a filter, then a packet.
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/code");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let files: Vec<_> = files.collect();
    assert!(files.len() >= 8, "the corpus is there");
    files
}

#[test]
fn corpus_replays() {
    let mut exercise = CodeExercise::default();
    for input in corpus() {
        (0..=input.len()).for_each(|length| exercise.run(&input[..length]));
    }
}

#[test]
fn mutated_packets_do_not_disturb_any_code_option() {
    let frames = std::env::var("SWITCHPATH_FRAMES").map_or(100_000, |n| n.parse().expect("a number of frames"));
    let (mut exercise, corpus) = (CodeExercise::default(), corpus());
    let mut random = RandomStream::new(3, "code");
    let mut workload = I3Workload::new(3, 4, 8, true);
    for number in 0..frames {
        let mut input: Vec<u8> = match number % 4 {
            0 => (0..random.below(120)).map(|_| random.below(256) as u8).collect(),
            1 => (0..32).map(|_| random.below(8) as u8).chain(workload.hostile_packet()).collect(),
            _ => corpus[random.below(corpus.len() as u64) as usize].clone(),
        };
        for _ in 0..random.below(8) {
            if input.is_empty() {
                break;
            }
            let at = random.below(input.len() as u64) as usize;
            match random.below(8) {
                0 => input.truncate(at),
                1 => drop(input.remove(at)),
                2 => input.insert(at, random.below(256) as u8),
                3 => input[at] = [0, 1, 0x7f, 0xff][random.below(4) as usize],
                _ => input[at] ^= 1 << random.below(8),
            }
        }
        exercise.run(&input);
    }
}
