//! Order within a flow.

/// The flows of a source at one sink.
#[derive(Debug)]
pub(crate) struct Order {
    /// For each flow the least number that its next packet may have.
    next: Vec<u64>,
}

impl Order {
    /// Tracks `flows` flows that take turns; with zero flows nothing is checked.
    pub fn new(flows: u64) -> Order {
        Order { next: vec![0; flows as usize] }
    }

    /// Records an arriving packet. If it was overtaken, returns the number of the packet that overtook it.
    #[inline]
    pub fn record_packet(&mut self, sequence: u64) -> Option<u64> {
        let flow = if self.next.len() <= 1 { 0 } else { (sequence % self.next.len() as u64) as usize };
        let next = self.next.get_mut(flow)?;
        if sequence < *next {
            return Some(*next - 1);
        }
        *next = sequence + 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordering_within_flow_is_detected() {
        let mut order = Order::new(2);
        let passes = [0, 3, 2, 4, 5, 1].map(|sequence| order.record_packet(sequence));
        assert_eq!(passes, [None, None, None, None, None, Some(5)]);
        assert_eq!([Order::new(1).record_packet(9), Order::new(0).record_packet(9)], [None, None]);
    }

    #[test]
    fn copied_packet_is_out_of_order() {
        let mut order = Order::new(1);
        assert_eq!([order.record_packet(7), order.record_packet(7)], [None, Some(7)]);
    }
}
