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
    pub fn passes(&mut self, sequence: u64) -> Option<u64> {
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
    fn a_packet_behind_a_later_one_of_its_flow_is_found_and_one_of_another_flow_is_not() {
        let mut order = Order::new(2);
        let passes = [0, 3, 2, 4, 5, 1].map(|sequence| order.passes(sequence));
        assert_eq!(passes, [None, None, None, None, None, Some(5)]);
        assert_eq!([Order::new(1).passes(9), Order::new(0).passes(9)], [None, None]);
    }

    #[test]
    fn a_copy_of_a_packet_is_out_of_order_too() {
        let mut order = Order::new(1);
        assert_eq!([order.passes(7), order.passes(7)], [None, Some(7)]);
    }
}
