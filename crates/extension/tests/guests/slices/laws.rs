//! The conformance tests of code options.

use super::{Text, for_byte};
use extension::{GuestSlice, Runtime, SLICE_LAWS, SliceExamination, examine_slice};

fn tried(text: &Text) -> (Vec<&'static str>, SliceExamination) {
    let runtime = Runtime::counted().unwrap();
    let guest = GuestSlice::load(&text.module(), &runtime).unwrap();
    let tried = examine_slice(&guest, &guest.declared().defaults(), 3).unwrap();
    let broken: Vec<_> = tried.verdicts.iter().filter(|verdict| verdict.broken.is_some()).map(|v| v.law).collect();
    assert_eq!((tried.is_good(), tried.verdicts.len()), (broken.is_empty(), SLICE_LAWS.len()));
    (broken, tried)
}

#[test]
fn broken_law_of_a_code_option_is_reported() {
    // Packets with an odd length are malformed, and those with an odd second byte are changed.
    let parse = "(i32.and (i32.load (local.get $r)) (i32.const 1))".to_string();
    let format =
        "(block (result i32) (i32.store8 (local.get $b) (i32.load8_u offset=32 (local.get $r))) (i32.const 0))";
    let good = Text { flags: 1, parse, format: format.into(), ..Text::default() };
    let (none, examination) = tried(&good);
    let SliceExamination { packets, keys, sent, changed, dropped, exceptions, .. } = examination;
    assert!(none.is_empty() && packets > 1000 && keys > 400 && sent == keys && changed > 200, "{examination:?}");
    assert_eq!((dropped, exceptions, keys + dropped), (packets - keys, 0, packets));
    for (text, law) in [
        (Text { parse: "(i32.const 30)".into(), ..good.clone() }, "sound decisions"),
        (Text { parse: for_byte(0x45, "(unreachable)"), ..good.clone() }, "sound decisions"),
        (Text { parse: for_byte(0x60, "(loop (br 0)) (unreachable)"), ..good.clone() }, "sound decisions"),
        (
            Text {
                parse:
                    "(block (result i32) (call $store (local.get $i) (i32.const 65536) (i64.const 1)) (i32.const 0))"
                        .into(),
                ..good.clone()
            },
            "sound decisions",
        ),
        (Text { parse: "(i32.eq (local.get $i) (i32.const 1))".into(), ..good.clone() }, "batches"),
        // A byte that a short packet does not have: it is that of an earlier packet.
        (
            Text { parse: "(i32.and (i32.load8_u offset=15 (local.get $b)) (i32.const 1))".into(), ..good.clone() },
            "batches",
        ),
        (
            Text {
                format: "(block (result i32) (i32.store8 (local.get $b) (local.get $i)) (i32.const 0))".into(),
                ..good.clone()
            },
            "batches",
        ),
    ] {
        assert_eq!(tried(&text).0, [law]);
    }
    assert_eq!(examination, tried(&good).1, "the same verdict each time");
}
