//! The time that the kernel's HTB adds to a packet that the kernel sends, with as many leaves in the same four levels.
//!
//! A host has two cables, one of them with HTB. The priority of a socket selects the leaf, so HTB looks up no filter. The kernel sends each packet at once,
//! as the router of this benchmark does. The leaves have drop-tail queues.

use anyhow::{Context, Result, ensure};
use io::clock;
use io::netns::{Lab, LabHost};
use io::raw::set_priority;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};

/// The numbers of classes have 16 bits.
pub const MOST_LEAVES: usize = 60_000;
/// Packets of a round.
const PACKETS: usize = 100_000;
/// The bytes of a packet without headers: a frame of 64 bytes with the check sequence.
const PAYLOAD: [u8; 18] = [0; 18];
const PORT: u16 = 9;

/// A host that sends by a cable with HTB, and by one without.
pub struct KernelHtb {
    // Before the laboratory, which ends when all hosts are dropped.
    managed: UdpSocket,
    plain: UdpSocket,
    _sinks: [UdpSocket; 2],
    _hosts: [LabHost; 2],
    leaves: Vec<u32>,
}

impl KernelHtb {
    /// HTB with this number of leaves below towers and regions of so many leaves.
    ///
    /// # Errors
    ///
    /// Without the right to make network namespaces, without the program `tc`, or if the kernel has no HTB.
    pub fn new(leaves: usize, tower: usize, region: usize) -> Result<KernelHtb> {
        ensure!(leaves <= MOST_LEAVES, "HTB has at most 65535 classes");
        let lab = Lab::new()?;
        let [here, there] = [lab.host("sender")?, lab.host("receiver")?];
        let address = |cable: u8, end: u8| IpAddr::from(Ipv4Addr::new(192, 0, cable, end));
        for (cable, name) in [(1, "htb"), (2, "plain")] {
            lab.cable(&here.plug(name), &there.plug(name))?;
            here.add_address(name, address(cable, 1), 24)?;
            there.add_address(name, address(cable, 2), 24)?;
        }
        let (commands, leaves) = classes(leaves, tower, region);
        here.run(|| tc(&commands))??;
        let sink = |cable| there.run(|| UdpSocket::bind((address(cable, 2), PORT)));
        let sinks = [sink(1)??, sink(2)??];
        let socket = |cable| {
            here.run(|| {
                let socket = UdpSocket::bind((address(cable, 1), 0))?;
                socket.connect((address(cable, 2), PORT))?;
                Ok::<UdpSocket, std::io::Error>(socket)
            })
        };
        Ok(KernelHtb { managed: socket(1)??, plain: socket(2)??, _sinks: sinks, _hosts: [here, there], leaves })
    }

    /// The nanoseconds that HTB adds to a packet.
    pub fn time_over_plain(&self) -> Result<f64> {
        let time = |socket: &UdpSocket| {
            let start = clock::now();
            for leaf in self.leaves.iter().cycle().take(PACKETS) {
                set_priority(socket, *leaf)?;
                socket.send(&PAYLOAD).context("sending")?;
            }
            anyhow::Ok(clock::now().since(start).get() as f64 / PACKETS as f64)
        };
        Ok(time(&self.managed)? - time(&self.plain)?)
    }
}

/// The commands that make the tree, and the leaves in the order in which they send: neighbours of a tower are far from each other.
fn classes(leaves: usize, tower: usize, region: usize) -> (String, Vec<u32>) {
    let mut text = String::from("qdisc add dev htb root handle 1: htb r2q 1000\n");
    let mut class = |parent: usize, number: usize, rate: &str, ceiling: &str| {
        let _ = writeln!(
            text,
            "class add dev htb parent 1:{parent:x} classid 1:{number:x} htb rate {rate} ceil {ceiling} quantum 1514"
        );
    };
    let (regions, towers) = (leaves.div_ceil(region), leaves.div_ceil(tower));
    // Class 1 and then regions, towers and leaves.
    let (first_tower, first_leaf) = (2 + regions, 2 + regions + towers);
    class(0, 1, "1tbit", "1tbit");
    (0..regions).for_each(|number| class(1, 2 + number, "100gbit", "100gbit"));
    (0..towers).for_each(|number| class(2 + number * tower / region, first_tower + number, "1gbit", "50gbit"));
    (0..leaves).for_each(|number| class(first_tower + number / tower, first_leaf + number, "1mbit", "20gbit"));
    // As in the router's benchmark: a step that is prime to the number.
    let leaf = |number: usize| 1 << 16 | (first_leaf + number * 7919 % leaves) as u32;
    (text, (0..leaves).map(leaf).collect())
}

/// Passes commands to `tc` in the namespace of this thread.
fn tc(commands: &str) -> Result<()> {
    let mut child = Command::new("tc")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run 'tc'; install iproute2")?;
    child.stdin.take().context("tc has no input")?.write_all(commands.as_bytes())?;
    let done = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "tc: {}", said.lines().next().unwrap_or("it failed"));
    Ok(())
}
