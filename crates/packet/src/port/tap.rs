//! Passes every frame of a port to a sink, for example a capture file. The packets are unchanged.

use super::{DecoratedPort, Port, PortDecorator};
use crate::{Batch, Pool};
use std::sync::{Arc, Mutex, PoisonError};
use units::Instant;

/// The direction of a frame as seen from the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Received.
    In,
    /// Transmitted.
    Out,
}

/// A receiver of frames. It must not block: it counts and discards frames that it cannot store.
pub trait FrameSink: Send {
    /// A frame passed at `now`.
    fn frame(&mut self, now: Instant, direction: Direction, frame: &[u8]);
}

/// One sink for all queues of a port. A tap is for diagnosis, so its workers may wait for each other while a sink copies a frame.
#[derive(Clone)]
pub struct SharedSink(Arc<Mutex<Box<dyn FrameSink>>>);

impl SharedSink {
    /// Shares `sink`.
    pub fn new(sink: Box<dyn FrameSink>) -> SharedSink {
        SharedSink(Arc::new(Mutex::new(sink)))
    }
}

impl FrameSink for SharedSink {
    fn frame(&mut self, now: Instant, direction: Direction, frame: &[u8]) {
        // After a panic of the sink only its own frames are lost.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).frame(now, direction, frame);
    }
}

/// Passes frames to a sink.
pub struct Tap(Box<dyn FrameSink>);

/// A port whose frames go to a sink.
pub type TappedPort = DecoratedPort<Tap>;

impl TappedPort {
    /// Wraps `inner`.
    pub fn new(inner: Box<dyn Port>, sink: Box<dyn FrameSink>) -> TappedPort {
        DecoratedPort::wrap(inner, Tap(sink))
    }
}

impl PortDecorator for Tap {
    fn received(&mut self, came: Option<Instant>, batch: &mut Batch, first: usize, _pool: &mut Pool) {
        for packet in &batch.as_slice()[first..] {
            self.0.frame(came.unwrap_or(packet.meta().timestamp), Direction::In, &packet.whole());
        }
    }

    fn transmitting(&mut self, now: Instant, batch: &Batch) {
        for packet in batch.as_slice() {
            self.0.frame(now, Direction::Out, &packet.whole());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryWire;
    use super::*;
    use crate::Region;

    type Frames = Vec<(Direction, Vec<u8>)>;

    #[derive(Clone, Default)]
    struct RecordedFrames(Arc<Mutex<Frames>>);

    impl FrameSink for RecordedFrames {
        fn frame(&mut self, _now: Instant, direction: Direction, frame: &[u8]) {
            self.0.lock().unwrap().push((direction, frame.to_vec()));
        }
    }

    #[test]
    fn tap_records_both_directions_unchanged() {
        let mut pool = Pool::new(Region::new(8));
        let (port, mut far) = MemoryWire::pair(8);
        let seen = RecordedFrames::default();
        let mut port = TappedPort::new(Box::new(port), Box::new(seen.clone()));
        let mut batch = Batch::new();
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(b"there"));
        batch.push(packet);
        port.transmit(Instant::START, &mut batch, &mut pool);
        far.receive(Instant::START, &mut batch, &mut pool);
        assert!(batch.as_mut_slice()[0].fill(b"and back"));
        far.transmit(Instant::START, &mut batch, &mut pool);
        port.receive(Instant::START, &mut batch, &mut pool);
        assert_eq!(batch.as_slice()[0].bytes(), b"and back");
        let seen = seen.0.lock().unwrap();
        assert_eq!(*seen, [(Direction::Out, b"there".to_vec()), (Direction::In, b"and back".to_vec())]);
        batch.drain().for_each(|p| pool.give(p));
    }
}
