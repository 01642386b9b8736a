//! Memory shared by two processes, and the rings of descriptors in it.
//!
//! The other process may write anything there at any time. Each shared word is therefore read once and checked before its use. Packets are copied out
//! before they are examined. A ring with impossible values ends the link.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering, fence};

/// The magic number at the start of every ring.
const COOKIE: u32 = 0x3e3_1f20;
/// The offsets of a ring's fields in bytes: those that the filler writes, those that the emptier writes, the descriptors.
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
const DESCRIPTORS: usize = 128;
const DESCRIPTOR: usize = 16;
/// [`Ring`] flag: the receiver is awake and needs no signal.
const AWAKE: u16 = 1;
/// [`Descriptor`] flag: the packet continues in the next descriptor.
const NEXT: u16 = 1;
/// The maximum memory mapped for a peer, in bytes.
const MAX_PEER_MEMORY: u64 = 1 << 30;

/// The other end violated the protocol of the ring in this way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProtocolViolation(pub &'static str);

/// Shared memory, mapped.
#[derive(Debug)]
pub(super) struct SharedMemory {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone; its contents are accessed only by atomics and copies.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New zeroed memory of `length` bytes that can never shrink, so that a peer's accesses cannot fault.
    pub fn create(length: usize) -> io::Result<(OwnedFd, SharedMemory)> {
        let file = memfd_create(c"switchpath memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, length as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK)?;
        let memory = SharedMemory::map(&file, length)?;
        Ok((file, memory))
    }

    /// The memory of a peer, which claims to have `length` bytes.
    pub fn of_peer(file: &OwnedFd, length: u64) -> io::Result<SharedMemory> {
        let refused = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_string());
        // Without the seal the peer could truncate the file, and the next access would raise SIGBUS.
        if !fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(refused("its memory is not sealed against shrinking"));
        }
        if length == 0 || length > MAX_PEER_MEMORY || fstat(file)?.st_size as u64 != length {
            return Err(refused("its memory differs from the announced size"));
        }
        SharedMemory::map(file, length as usize)
    }

    fn map(file: impl AsFd, length: usize) -> io::Result<SharedMemory> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let base = unsafe { mmap(ptr::null_mut(), length, protection, MapFlags::SHARED, file, 0) }?;
        Ok(SharedMemory { base: NonNull::new(base.cast()).expect("the kernel maps nothing at address zero"), length })
    }

    fn contains(&self, offset: usize, length: usize) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.length)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; rings keep the memory alive.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// Bytes of a ring of `1 << log2` descriptors.
pub(super) const fn ring_length(log2: u8) -> usize {
    DESCRIPTORS + (DESCRIPTOR << log2)
}

/// The descriptor of a slot. Read once, and untrusted.
#[derive(Clone, Copy)]
struct Descriptor {
    flags: u16,
    region: u16,
    length: u32,
    offset: u32,
}

/// The end that moves the head of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeadOwner {
    /// The sender moves the head over packets, the receiver the tail (client to server).
    Sender,
    /// The receiver moves the head over empty buffers, the sender the tail over packets (server to client).
    Receiver,
}

/// One ring, seen from one end.
#[derive(Debug)]
pub(super) struct Ring {
    memory: Arc<SharedMemory>,
    /// Its offset in the memory.
    base: usize,
    mask: u16,
    head_owner: HeadOwner,
    /// The unwrapped position of this end in the ring.
    position: u16,
}

impl Ring {
    /// A ring of `1 << log2` descriptors at `offset`. An error if it does not lie in the memory.
    pub fn new(
        memory: &Arc<SharedMemory>,
        offset: usize,
        log2: u8,
        filled: HeadOwner,
    ) -> Result<Ring, ProtocolViolation> {
        if log2 > super::message::MOST_LOG2_RING
            || !offset.is_multiple_of(64)
            || !memory.contains(offset, ring_length(log2))
        {
            return Err(ProtocolViolation("a ring lies outside the shared memory"));
        }
        Ok(Ring { memory: memory.clone(), base: offset, mask: (1u16 << log2) - 1, head_owner: filled, position: 0 })
    }

    /// Initialises a new ring as the owner of the memory: slot `i` has the buffer of `size` bytes at `buffers + i * size`.
    pub fn initialise(&mut self, buffers: usize, size: u32) {
        for slot in 0..=self.mask {
            let offset = (buffers + usize::from(slot) * size as usize) as u32;
            self.describe(slot, Descriptor { flags: 0, region: 0, length: size, offset });
        }
        self.word16(HEAD).store(0, Ordering::Relaxed);
        self.word16(TAIL).store(0, Ordering::Relaxed);
        self.word32(0).store(COOKIE, Ordering::Release);
    }

    /// The receiver offers all its buffers, after the server is ready: DPDK's server empties the rings when it connects.
    pub fn offer(&self) {
        debug_assert_eq!(self.head_owner, HeadOwner::Receiver);
        self.word16(HEAD).store(self.position.wrapping_add(self.mask + 1), Ordering::Release);
    }

    /// True if the owner of the memory has initialised it.
    pub fn is_initialised(&self) -> bool {
        self.word32(0).load(Ordering::Acquire) == COOKIE
    }

    fn word16(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: `new` checked that the ring lies in the memory, at a multiple of 64; `offset` is that of a two-byte field. Both ends access it
        // atomically.
        unsafe { AtomicU16::from_ptr(self.memory.base.as_ptr().add(self.base + offset).cast()) }
    }

    fn word32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as for `word16`, of four bytes.
        unsafe { AtomicU32::from_ptr(self.memory.base.as_ptr().add(self.base + offset).cast()) }
    }

    fn slot(&self, slot: u16) -> *mut u8 {
        let offset = self.base + DESCRIPTORS + usize::from(slot & self.mask) * DESCRIPTOR;
        // SAFETY: masked, so it is a descriptor of this ring, which lies in the memory.
        unsafe { self.memory.base.as_ptr().add(offset) }
    }

    fn descriptor(&self, slot: u16) -> Descriptor {
        // SAFETY: sixteen bytes of the mapping, initialised and aligned to 16. The other end may write them concurrently; every value is checked
        // afterwards.
        let words: [u32; 4] = unsafe { ptr::read_volatile(self.slot(slot).cast()) };
        Descriptor { flags: words[0] as u16, region: (words[0] >> 16) as u16, length: words[1], offset: words[2] }
    }

    fn describe(&mut self, slot: u16, d: Descriptor) {
        let words = [u32::from(d.flags) | u32::from(d.region) << 16, d.length, d.offset, 0];
        // SAFETY: as in `descriptor`, for writing.
        unsafe { ptr::write_volatile(self.slot(slot).cast(), words) }
    }

    fn peer_position(&self, offset: usize) -> u16 {
        self.word16(offset).load(Ordering::Acquire)
    }

    /// The number of its slots.
    pub fn slots(&self) -> u16 {
        self.mask + 1
    }

    /// The number of slots free for packets to send.
    pub fn room(&self) -> Result<u16, ProtocolViolation> {
        let size = self.mask + 1;
        let (room, wrong) = match self.head_owner {
            // The receiver follows with the tail.
            HeadOwner::Sender => {
                let waiting = self.position.wrapping_sub(self.peer_position(TAIL));
                (size.wrapping_sub(waiting), waiting > size)
            }
            // The receiver advances the head over its empty buffers.
            HeadOwner::Receiver => {
                let offered = self.peer_position(HEAD).wrapping_sub(self.position);
                (offered, offered > size)
            }
        };
        if wrong { Err(ProtocolViolation("a ring has more packets than slots")) } else { Ok(room) }
    }

    /// Writes a packet to the next slot, which must be free. `nth` counts the packets since the last [`Ring::publish`]. Returns false if the slot's
    /// buffer is too short: the slot is then published empty.
    pub fn fill(&mut self, nth: u16, buffer: (usize, u32), frame: &[u8]) -> Result<bool, ProtocolViolation> {
        let slot = self.position.wrapping_add(nth);
        let (offset, size) = match self.head_owner {
            // The buffers are in this end's memory: their addresses are computed and not read from shared memory.
            HeadOwner::Sender => (buffer.0 + usize::from(slot & self.mask) * buffer.1 as usize, buffer.1),
            HeadOwner::Receiver => {
                let d = self.descriptor(slot);
                if d.region != 0 || !self.memory.contains(d.offset as usize, d.length as usize) {
                    return Err(ProtocolViolation("a buffer lies outside the shared memory"));
                }
                (d.offset as usize, d.length)
            }
        };
        let fits = frame.len() <= size as usize;
        let length = if fits { frame.len() } else { 0 };
        // SAFETY: `offset..offset + size` lies in the memory (checked above, or computed), and a frame of the pool does not overlap it.
        unsafe { ptr::copy_nonoverlapping(frame.as_ptr(), self.memory.base.as_ptr().add(offset), length) };
        self.describe(slot, Descriptor { flags: 0, region: 0, length: length as u32, offset: offset as u32 });
        Ok(fits)
    }

    /// Publishes `count` filled slots to the receiver. Returns true if the receiver sleeps and must be signalled.
    pub fn publish(&mut self, count: u16) -> bool {
        self.position = self.position.wrapping_add(count);
        let field = if self.head_owner == HeadOwner::Sender { HEAD } else { TAIL };
        self.word16(field).store(self.position, Ordering::Release);
        // With the fence, either the receiver sees the packets before it sleeps, or this end sees that the receiver is about to sleep.
        fence(Ordering::SeqCst);
        self.word16(FLAGS).load(Ordering::Relaxed) & AWAKE == 0
    }

    /// The number of slots with packets to receive.
    pub fn waiting(&self) -> Result<u16, ProtocolViolation> {
        let field = if self.head_owner == HeadOwner::Sender { HEAD } else { TAIL };
        let waiting = self.peer_position(field).wrapping_sub(self.position);
        if waiting > self.mask + 1 { Err(ProtocolViolation("a ring has more packets than slots")) } else { Ok(waiting) }
    }

    /// True if `waiting` packets fill the whole ring.
    pub fn is_full(&self, waiting: u16) -> bool {
        waiting == self.mask + 1
    }

    /// Copies the packet part in the `nth` slot to the front of `to`. Returns its length, which may exceed the copied bytes, and true if the packet
    /// continues in the next slot.
    pub fn copy(&self, nth: u16, to: &mut [u8]) -> Result<(usize, bool), ProtocolViolation> {
        let d = self.descriptor(self.position.wrapping_add(nth));
        let (offset, length) = (d.offset as usize, d.length as usize);
        if d.region != 0 || !self.memory.contains(offset, length) {
            return Err(ProtocolViolation("a packet lies outside the shared memory"));
        }
        let copied = length.min(to.len());
        // SAFETY: the source lies in the memory. The other end may write it concurrently; the copy is then arbitrary bytes, as in any untrusted
        // packet.
        unsafe { ptr::copy_nonoverlapping(self.memory.base.as_ptr().add(offset), to.as_mut_ptr(), copied) };
        Ok((length, d.flags & NEXT != 0))
    }

    /// Returns `count` slots to the sender, as buffers of `size` bytes if the memory is this end's.
    pub fn release(&mut self, count: u16, buffers: Option<(usize, u32)>) {
        // The sender has overwritten the lengths, so each descriptor has to state its whole buffer again.
        if let (HeadOwner::Receiver, Some((base, size))) = (self.head_owner, buffers) {
            for nth in 0..count {
                let slot = self.position.wrapping_add(nth);
                let offset = (base + usize::from(slot & self.mask) * size as usize) as u32;
                self.describe(slot, Descriptor { flags: 0, region: 0, length: size, offset });
            }
        }
        self.position = self.position.wrapping_add(count);
        let (field, value) = match self.head_owner {
            HeadOwner::Sender => (TAIL, self.position),
            HeadOwner::Receiver => (HEAD, self.position.wrapping_add(self.mask + 1)),
        };
        self.word16(field).store(value, Ordering::Release);
    }

    /// Publishes to the sender if a signal is needed.
    pub fn set_awake(&self, awake: bool) {
        self.word16(FLAGS).store(if awake { AWAKE } else { 0 }, Ordering::Relaxed);
        // Before the last check for packets: see `publish`.
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOG2: u8 = 3;
    const SIZE: u32 = 64;
    const BUFFERS: usize = 1024;

    /// Both ends of a ring, the owner of the memory first.
    fn pair(filled: HeadOwner) -> (Ring, Ring, Arc<SharedMemory>) {
        let (file, memory) = SharedMemory::create(8192).unwrap();
        let memory = Arc::new(memory);
        let peer = Arc::new(SharedMemory::of_peer(&file, 8192).unwrap());
        let mut owner = Ring::new(&memory, 0, LOG2, filled).unwrap();
        owner.initialise(BUFFERS, SIZE);
        if filled == HeadOwner::Receiver {
            owner.offer();
        }
        let other = Ring::new(&peer, 0, LOG2, filled).unwrap();
        assert!(other.is_initialised());
        (owner, other, memory)
    }

    fn send(ring: &mut Ring, frames: &[Vec<u8>]) -> usize {
        let room = usize::from(ring.room().unwrap()).min(frames.len());
        for (nth, frame) in frames[..room].iter().enumerate() {
            assert!(ring.fill(nth as u16, (BUFFERS, SIZE), frame).unwrap());
        }
        ring.publish(room as u16);
        room
    }

    fn receive(ring: &mut Ring, most: u16, ours: bool) -> Vec<Vec<u8>> {
        let count = ring.waiting().unwrap().min(most);
        let taken = (0..count).map(|nth| {
            let mut bytes = vec![0; 64];
            let (length, more) = ring.copy(nth, &mut bytes).unwrap();
            assert!(!more);
            bytes.truncate(length);
            bytes
        });
        let taken = taken.collect();
        ring.release(count, ours.then_some((BUFFERS, SIZE)));
        taken
    }

    proptest! {
        #[test]
        fn ring_delivers_packets_in_order_without_loss(steps in prop::collection::vec((0usize..12, 0u16..12), 1..200)) {
            for filled in [HeadOwner::Sender, HeadOwner::Receiver] {
                let (owner, other, _memory) = pair(filled);
                // The owner is the client: it sends on rings that the sender fills.
                let (mut sender, mut receiver, ours) = match filled {
                    HeadOwner::Sender => (owner, other, false),
                    HeadOwner::Receiver => (other, owner, true),
                };
                let (mut next, mut expected) = (0u32, 0u32);
                for &(sends, receives) in &steps {
                    let frames: Vec<Vec<u8>> = (next..).take(sends).map(|n| n.to_be_bytes().to_vec()).collect();
                    next += send(&mut sender, &frames) as u32;
                    for frame in receive(&mut receiver, receives, ours) {
                        prop_assert_eq!(&frame, &expected.to_be_bytes());
                        expected += 1;
                    }
                    prop_assert!(next - expected <= 8);
                }
            }
        }

        #[test]
        fn arbitrary_peer_writes_end_the_link_or_are_valid(junk in prop::collection::vec(any::<u8>(), 8192)) {
            for filled in [HeadOwner::Sender, HeadOwner::Receiver] {
                let (mut owner, mut other, memory) = pair(filled);
                // SAFETY: the mapping has 8192 bytes.
                unsafe { ptr::copy_nonoverlapping(junk.as_ptr(), memory.base.as_ptr(), junk.len()) };
                for ring in [&mut owner, &mut other] {
                    if let Ok(room) = ring.room() {
                        for nth in 0..room {
                            let _ = ring.fill(nth, (BUFFERS, SIZE), &[1; 60]);
                        }
                    }
                    if let Ok(waiting) = ring.waiting() {
                        let mut to = [0; 100];
                        for nth in 0..waiting {
                            let _ = ring.copy(nth, &mut to);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn unsealed_or_short_peer_memory_is_rejected() {
        let (file, _memory) = SharedMemory::create(4096).unwrap();
        assert!(SharedMemory::of_peer(&file, 8192).is_err());
        let open = memfd_create(c"test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&open, 4096).unwrap();
        assert!(SharedMemory::of_peer(&open, 4096).is_err());
        assert!(SharedMemory::of_peer(&file, 4096).is_ok());
    }

    #[test]
    fn a_sleeping_receiver_is_signalled_and_an_awake_one_is_not() {
        let (mut sender, receiver, _memory) = pair(HeadOwner::Sender);
        receiver.set_awake(true);
        assert!(!sender.publish(0));
        receiver.set_awake(false);
        assert!(sender.publish(0));
    }
}
