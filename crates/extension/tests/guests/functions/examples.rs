//! The shipped guests on packets with real bytes.

use super::{Line, one};
use crate::built::example;
use extension::{GuestFunction, Runtime, examine_function};
use packet::DropReason;
use packet::wire::{checksum, protocol};
use units::Nanos;

/// The first segment of a connection to `www.video.example`, as OpenSSL 3.0 makes it.
const CLIENT_HELLO: &[u8] = include_bytes!("client_hello.bin");
const OTHER: &str = "[[path]]\nname = 'video'\nmatch = 'udp dport 65535'\n";

/// A frame from `lan` to `wan` with an IPv4 header and these bytes.
fn frame(protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 7, 198, 51, 100, 9];
    header[2..4].copy_from_slice(&(20 + upper.len() as u16).to_be_bytes());
    let sum = checksum::checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let link = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
    [&link[..], &header, upper].concat()
}

/// A TCP segment from this port, with these flags.
fn tcp(from: u16, to: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = [0; 20];
    header[..2].copy_from_slice(&from.to_be_bytes());
    header[2..4].copy_from_slice(&to.to_be_bytes());
    (header[12], header[13]) = (0x50, flags);
    frame(protocol::TCP, &[&header[..], payload].concat())
}

/// A UDP datagram with a checksum.
fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len() as u16).to_be_bytes();
    let mut header = [0; 8];
    header[..2].copy_from_slice(&from.to_be_bytes());
    header[2..4].copy_from_slice(&to.to_be_bytes());
    header[4..6].copy_from_slice(&length);
    let mut sent = frame(protocol::UDP, &[&header[..], payload].concat());
    let sum = udp_sum(&sent);
    sent[40..42].copy_from_slice(&sum.to_be_bytes());
    sent
}

/// The checksum over the pseudo-header and the datagram of a frame: zero if its checksum is right (RFC 768).
fn udp_sum(frame: &[u8]) -> u16 {
    let length = (frame.len() - 34) as u16;
    let pseudo = [&frame[26..34], &[0, 17], &length.to_be_bytes()[..], &frame[34..]].concat();
    checksum::checksum(&pseudo)
}

/// A line with an example, or none if its tools are missing.
fn line(file: &str, guest: &str, paths: &str) -> Option<Line> {
    let module = example(file)?;
    let mut line = Line::new();
    line.put(file.split_once('.').unwrap().0, &module);
    line.apply(&format!("{}{OTHER}", one(guest, paths)));
    Some(line)
}

#[test]
fn names_sends_connections_to_the_path_of_their_server() {
    let rules = "guest_rules = ['*.video.example video', 'ads.example drop', '*.example pass']";
    let Some(mut line) = line("names.rs", "guest:names", rules) else { return };
    let request = |host: &str| format!("GET / HTTP/1.1\r\nAccept: */*\r\nHost: {host}\r\n\r\n").into_bytes();
    let (syn, ack) = (2, 0x10);
    // A handshake, the name, and the rest of the connection; another connection; and one without a name.
    let sent = [
        tcp(1001, 443, syn, &[]),
        tcp(1001, 443, ack, CLIENT_HELLO),
        tcp(1001, 443, ack, b"encrypted"),
        tcp(1002, 80, ack, &request("ads.example:80")),
        tcp(1002, 80, ack, b"more"),
        tcp(1003, 80, ack, &request("WWW.Other.Example")),
        tcp(1004, 22, ack, b"SSH-2.0-OpenSSH_9.2\r\n"),
        udp(1005, 443, CLIENT_HELLO),
        // The same ports again: a new connection.
        tcp(1001, 443, syn, &[]),
        tcp(1001, 443, ack, b"no name"),
    ];
    assert_eq!(line.pass_frames(&sent).len(), 8);
    let counts =
        ["rule *.video.example video", "rule ads.example drop", "rule *.example pass", "TLS names", "HTTP hosts"];
    assert_eq!(counts.map(|name| line.counter(name)), [2, 2, 1, 1, 2]);
    assert_eq!((line.dropped(DropReason::Guest), line.counter("faults")), (2, 0));
    // A hello that ends anywhere, or has any wrong byte, is no fault.
    let cut = (0..CLIENT_HELLO.len()).map(|end| tcp(2000 + end as u16, 443, ack, &CLIENT_HELLO[..end]));
    let wrong = (0..CLIENT_HELLO.len()).map(|at| {
        let mut hello = CLIENT_HELLO.to_vec();
        hello[at] ^= 0xff;
        tcp(3000 + at as u16, 443, ack, &hello)
    });
    for frames in cut.chain(wrong).collect::<Vec<_>>().chunks(100) {
        line.pass_frames(frames);
    }
    assert_eq!(line.counter("faults"), 0, "{:?}", line.events());
}

/// An RTP packet of payload type 96 (RFC 3550 5.1) from this source.
fn rtp(source: u8, payload: &[u8]) -> Vec<u8> {
    udp(5004, 5004, &[&[0x80, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, source][..], payload].concat())
}

#[test]
fn thin_keeps_the_base_layer_of_scalable_video() {
    let Some(mut line) = line("thin.c", "guest:thin(temporal=1)", "") else { return };
    // The three bytes of RFC 6190 1.1.3: priority; spatial and quality layer; temporal layer.
    let unit = |kind: u8, layers: u8, temporal: u8| vec![0x60 | kind, 0x80, layers, temporal << 5 | 7, 9, 9];
    let fragment = |start: bool, end: bool, rest: &[u8]| {
        [&[0x60 | 28, u8::from(start) << 7 | u8::from(end) << 6 | 20][..], rest].concat()
    };
    let (above, kept) = (unit(20, 0, 2), unit(20, 0, 1));
    let sent = [
        rtp(1, &[0x65, 1, 2, 3]),
        rtp(1, &unit(14, 0, 0)),
        rtp(1, &kept),
        rtp(1, &above),
        rtp(1, &unit(20, 0x10, 0)),
        // A fragmented unit above the limit from one source, and one that is kept from another between its parts.
        rtp(1, &fragment(true, false, &above[1..])),
        rtp(2, &fragment(true, false, &kept[1..])),
        rtp(1, &fragment(false, false, &[1, 2, 3])),
        rtp(2, &fragment(false, true, &[1, 2, 3])),
        rtp(1, &fragment(false, true, &[1, 2, 3])),
        rtp(1, &fragment(false, true, &[1, 2, 3])),
        udp(5004, 5004, b"no RTP"),
    ];
    let left = line.pass_frames(&sent);
    assert_eq!(left.len(), 7, "{left:?}");
    let counts = ["the base layer", "enhancement layers kept", "enhancement layers dropped"];
    assert_eq!(counts.map(|name| line.counter(&format!("packets of {name}"))), [2, 4, 5]);
}

#[test]
fn thin_reads_temporal_layers_of_vp8() {
    let Some(mut line) = line("thin.c", "guest:thin(vp8=on)", "") else { return };
    // RFC 7741 4.2: no extension; a short and a long picture number with TL0PICIDX and TID.
    let sent = [
        rtp(1, &[0x10, 1, 2]),
        rtp(1, &[0x90, 0xe0, 5, 1, 0x00, 1]),
        rtp(1, &[0x90, 0xe0, 5, 1, 0x40, 1]),
        rtp(1, &[0x90, 0xe0, 0x81, 5, 1, 0x80, 1]),
        rtp(1, &[0x90]),
    ];
    assert_eq!(line.pass_frames(&sent).len(), 3);
}

#[test]
fn police_passes_the_burst_and_then_the_rate() {
    let Some(mut line) = line("police.ts", "guest:police(rate=8mbit, burst=10000b)", "") else { return };
    // Packets of 1000 bytes: ten at once, and then one in each millisecond.
    let packet = || udp(4000, 9, &[0; 972]);
    let burst: Vec<Vec<u8>> = (0..30).map(|_| packet()).collect();
    assert_eq!(line.pass_frames(&burst).len(), 10);
    let mut passed = 0;
    for _ in 0..200 {
        line.rig.now += Nanos::micros(500);
        passed += line.pass_frames(&[packet()]).len();
    }
    assert!((99..=101).contains(&passed), "{passed} of 100");
    // The bucket survives another build, and a larger burst applies to it.
    let module = example("police.ts").unwrap();
    line.put("police", &[&module[..], &[0, 2, 1, 0]].concat());
    line.apply(&format!("{}{OTHER}", one("guest:police(rate=8mbit, burst=12000b)", "")));
    assert_eq!(line.pass_frames(&burst).len(), 2);
}

#[test]
fn police_gives_each_flow_its_rate_and_the_rest_to_a_rule() {
    let rules = "guest_rules = ['over video']";
    let Some(mut line) = line("police.ts", "guest:police(rate=8mbit, burst=3000b, flows=on)", rules) else { return };
    let sent: Vec<Vec<u8>> = (0..5).flat_map(|_| [1, 2].map(|port| udp(port, 9, &[0; 972]))).collect();
    assert_eq!(line.pass_frames(&sent).len(), 10, "nothing is dropped");
    assert_eq!([line.counter("passed"), line.counter("rule over video")], [6, 4]);
}

/// A DNS response to a question for `name`, with these answers.
fn dns(name: &str, answers: &[&[u8]]) -> Vec<u8> {
    let mut message = vec![0, 7, 0x81, 0x80, 0, 1, 0, answers.len() as u8, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    for answer in answers {
        let kind = if answer.len() == 16 { 28 } else { 1 };
        // A pointer to the question, the type and class, a minute to live.
        message.extend_from_slice(&[0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, answer.len() as u8]);
        message.extend_from_slice(answer);
    }
    message
}

#[test]
fn dns_filter_drops_named_responses_and_private_addresses() {
    let rules = "guest_rules = ['*.ads.example drop', '*.corp.example pass']";
    let Some(mut line) = line("dns.rs", "guest:dns", rules) else { return };
    let (public, private, own6) = ([93, 184, 216, 34], [192, 168, 1, 1], [0xfd; 16]);
    let mut mapped = [0; 16];
    mapped[10..].copy_from_slice(&[255, 255, 10, 0, 0, 1]);
    let messages = [
        (dns("www.example", &[&public]), true),
        (dns("x.ADS.example", &[&public]), false),
        (dns("ads.example", &[&public]), false),
        (dns("evil.example", &[&public, &private]), false),
        (dns("evil.example", &[&own6]), false),
        (dns("evil.example", &[&mapped]), false),
        (dns("host.corp.example", &[&private]), true),
    ];
    let sent: Vec<Vec<u8>> = messages.iter().map(|(message, _)| udp(53, 4000, message)).collect();
    let left = line.pass_frames(&sent);
    let wanted: Vec<&Vec<u8>> =
        sent.iter().zip(&messages).filter(|(_, (_, passes))| *passes).map(|(sent, _)| sent).collect();
    assert_eq!(
        left.iter().map(|frame| &frame[42..]).collect::<Vec<_>>(),
        wanted.iter().map(|f| &f[42..]).collect::<Vec<_>>()
    );
    // A question, and packets of other ports, are no responses.
    let mut question = dns("x.ads.example", &[]);
    question[2] = 1;
    let others = [udp(53, 4000, &question), udp(54, 4000, &messages[1].0)];
    assert_eq!(line.pass_frames(&others).len(), 2);
    // Truncated and corrupt messages are no fault.
    let whole = &messages[3].0;
    let odd = (0..whole.len()).flat_map(|at| {
        let mut wrong = whole.clone();
        wrong[at] = 0xff;
        [udp(53, 4000, &whole[..at]), udp(53, 4000, &wrong)]
    });
    line.pass_frames(&odd.collect::<Vec<_>>());
    assert_eq!(line.counter("faults"), 0, "{:?}", line.events());
    assert!(line.counter("malformed") > 0);
}

/// A capsule with this program and these words.
fn capsule(code: &[u8], words: &[u32]) -> Vec<u8> {
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let head = [b'S', b'P', b'A', b'C', code.len() as u8, (words.len() / 4) as u8, 0, 0];
    udp(4000, 3322, &[&head[..], code, &words].concat())
}

#[test]
fn capsules_compute_on_their_words_and_on_soft_state() {
    let Some(mut line) = line("capsule.rs", "guest:capsule", "") else { return };
    // Word 0 becomes the sum of both, and word 1 the port to the destination. At both alignments of the words.
    for pad in [0, 1] {
        let mut sum = vec![4, 0, 4, 1, 6, 5, 0, 17, 5, 1, 0];
        sum.resize(sum.len() + pad, 0);
        let left = line.pass_frames(&[capsule(&sum, &[0x8000_0001, 0x8000_0005])]).remove(0);
        let words = &left[50 + sum.len()..];
        let wan = line.rig.router.snapshot().interface_named("wan").unwrap().port.0;
        assert_eq!((&words[..4], &words[4..8]), (&[0, 0, 0, 6][..], &u32::from(wan).to_be_bytes()[..]), "{pad}");
        assert_eq!(udp_sum(&left), 0, "its checksum is right");
    }
    // Suppresses the second request for the number in word 0: drops it if the state has it, else keeps it there.
    let suppress = [4, 0, 13, 12, 6, 1, 4, 0, 3, 1, 14, 0];
    let request = |number: u32| capsule(&suppress, &[number]);
    assert_eq!(line.pass_frames(&[request(7), request(7), request(8), request(7)]).len(), 2);
    line.rig.advance(Nanos::secs(11));
    assert_eq!(line.pass_frames(&[request(7)]).len(), 1, "the state has expired");
    // Programs that fail: no end, an empty stack, an unknown operation, a word or rule that does not exist, an endless loop, a full stack.
    let failing: [&[u8]; 7] = [&[], &[6], &[99], &[4, 9, 0], &[2, 0], &[3, 0, 12, 0], &[3, 1, 18, 18, 3, 0, 12, 2]];
    let sent: Vec<Vec<u8>> = failing.iter().map(|code| capsule(code, &[5])).collect();
    let left = line.pass_frames(&sent);
    assert!(
        left.iter().zip(&sent).all(|(left, sent)| left[34..] == sent[34..]) && left.len() == 7,
        "they stay as they are"
    );
    assert_eq!([line.counter("failed programs"), line.counter("faults")], [7, 0]);
}

#[test]
fn any_program_of_a_capsule_ends_without_a_fault() {
    let Some(mut line) = line("capsule.rs", "guest:capsule", "guest_rules = ['a drop']") else { return };
    let mut random = 1u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 32) as u8
    };
    for _ in 0..20 {
        let frames: Vec<Vec<u8>> = (0..100)
            .map(|_| {
                let code: Vec<u8> = (0..next() % 60).map(|_| if next() > 50 { next() % 20 } else { next() }).collect();
                let words: Vec<u32> = (0..next() % 5).map(|_| next().into()).collect();
                capsule(&code, &words)
            })
            .collect();
        for left in line.pass_frames(&frames) {
            assert_eq!(udp_sum(&left), 0);
        }
    }
    assert_eq!((line.counter("faults"), line.counter("capsules")), (0, 2000), "{:?}", line.events());
}

#[test]
fn shipped_functions_keep_every_law() {
    let runtime = Runtime::counted().unwrap();
    for file in ["names.rs", "thin.c", "police.ts", "dns.rs", "capsule.rs"] {
        let Some(module) = example(file) else { continue };
        let function = GuestFunction::load(&module, &runtime).unwrap();
        let declaration = function.declared().declaration("guest:mine");
        let call = plan::Call::parse("guest:mine", &[declaration], "guest").unwrap();
        let tried = examine_function(&function, &call, 4).unwrap();
        assert!(tried.is_good() && tried.packets > 1000, "{file}: {tried:?}");
    }
}
