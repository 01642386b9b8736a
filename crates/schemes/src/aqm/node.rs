//! A node of any kind with its state of many queues. The orders do not depend on the kind.

use super::{Evaluation, Head, Manage, QueueContext, managers};
use crate::options::{BuildError, Values};
use crate::{Record, Size, Tell, Wires, fifo};
use alloc::string::ToString;
use alloc::vec::Vec;
use units::{Bytes, Instant};

/// A node and its state of each queue.
#[derive(Clone, Debug)]
pub(crate) struct NodeQueues<M: Manage> {
    node: M,
    queues: Vec<M::Memory>,
}

impl<M: Manage> NodeQueues<M> {
    fn new(node: M, queues: usize) -> NodeQueues<M> {
        NodeQueues { queues: (0..queues).map(|_| node.memory()).collect(), node }
    }

    #[inline(always)]
    fn arrive<W: Wires>(&mut self, queue: usize, at: &mut QueueContext<'_, W>, packet: &Record) -> Size {
        let Size { packets, bytes } = at.waiting;
        let Some(memory) = self.queues.get_mut(queue) else { return at.waiting };
        match self.node.arrive(memory, at, packet) {
            // It may have dropped waiting packets. For the other kinds the new length is known without another read of the queue.
            _ if M::PUSHES_OUT => at.size(),
            true => Size { packets: packets + packet.packets(), bytes: bytes + Bytes::new(packet.length.into()) },
            false => at.waiting,
        }
    }

    #[inline(always)]
    fn fetch<W: Wires>(&self, queue: usize, wires: &W) {
        // Nodes without state, such as `Threshold`, have nothing to prefetch.
        if size_of::<M::Memory>() > 0
            && let Some(memory) = self.queues.get(queue)
        {
            wires.prefetch(memory);
        }
    }

    fn state(&self, queue: usize, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        if let Some(memory) = self.queues.get(queue) {
            self.node.state(memory, now, waiting, tell);
        }
    }

    /// Like [`Scheme::tune`](crate::Scheme::tune); `size` is the length of a queue.
    fn tune(&mut self, other: &NodeQueues<M>, size: impl Fn(usize) -> Size) -> bool {
        let like = self.queues.len() == other.queues.len() && self.node.has_compatible_state(&other.node);
        if like {
            // The random generator starts anew with the seed of the new parameters.
            self.node.clone_from(&other.node);
            self.queues.iter_mut().enumerate().for_each(|(i, memory)| self.node.parameters_changed(memory, size(i)));
        }
        like
    }

    fn reset(&mut self) {
        self.queues.iter_mut().for_each(|memory| *memory = self.node.memory());
    }

    fn emptied(&mut self, queue: usize) {
        if let Some(memory) = self.queues.get_mut(queue) {
            self.node.emptied(memory);
        }
    }

    #[inline(always)]
    fn evaluate<W: Wires>(&mut self, queue: usize, at: &mut QueueContext<'_, W>) -> Evaluation {
        let Some(memory) = self.queues.get_mut(queue) else { return Evaluation::Nothing };
        self.node.evaluate(memory, at)
    }
}

macro_rules! nodes {
    ($($kind:ident)*) => {
        /// A node that manages queues. It is an enum, so that one match dispatches to inlined code and no node is boxed.
        #[derive(Clone, Debug)]
        pub(crate) enum Aqm { $($kind(NodeQueues<super::$kind>)),* }

        impl Aqm {
            /// Enqueues, marks or refuses the arriving packet. Returns the new length of the queue.
            #[inline(always)]
            pub fn arrive<W: Wires>(&mut self, queue: usize, mut at: QueueContext<'_, W>, packet: &Record) -> Size {
                // Tail drop is the usual node of an order of many queues, and cheaper than the dispatch.
                if let Aqm::Tail(each) = self {
                    return each.arrive(queue, &mut at, packet);
                }
                self.managed_arrival(queue, at, packet)
            }

            #[inline(never)]
            fn managed_arrival<W: Wires>(&mut self, queue: usize, mut at: QueueContext<'_, W>, packet: &Record) -> Size {
                match self { $(Aqm::$kind(each) => each.arrive(queue, &mut at, packet)),* }
            }

            /// A hint that the queue is evaluated soon.
            #[inline(always)]
            pub fn fetch<W: Wires>(&self, queue: usize, wires: &W) {
                if !matches!(self, Aqm::Tail(_)) {
                    self.managed_fetch(queue, wires);
                }
            }

            #[inline(never)]
            fn managed_fetch<W: Wires>(&self, queue: usize, wires: &W) {
                match self { $(Aqm::$kind(each) => each.fetch(queue, wires)),* }
            }

            /// True if an evaluation reads more of the first packet than its length.
            #[inline(always)]
            pub fn looks(&self) -> bool {
                // `LOOKS` belongs to the type of the node, which the compiler infers from the value in the variant.
                fn of<M: Manage>(_: &NodeQueues<M>) -> bool {
                    M::LOOKS
                }
                match self { $(Aqm::$kind(each) => of(each)),* }
            }

            /// Evaluates the queue once.
            #[inline(always)]
            pub fn evaluate<W: Wires>(&mut self, queue: usize, mut at: QueueContext<'_, W>) -> Evaluation {
                if let Aqm::Tail(each) = self {
                    return each.evaluate(queue, &mut at);
                }
                self.managed_evaluation(queue, at)
            }

            #[inline(never)]
            fn managed_evaluation<W: Wires>(&mut self, queue: usize, mut at: QueueContext<'_, W>) -> Evaluation {
                match self { $(Aqm::$kind(each) => each.evaluate(queue, &mut at)),* }
            }

            /// Forgets the state of all queues.
            pub fn reset(&mut self) {
                match self { $(Aqm::$kind(each) => each.reset()),* }
            }

            /// Reports the state of a queue.
            pub fn state(&self, queue: usize, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
                match self { $(Aqm::$kind(each) => each.state(queue, now, waiting, tell)),* }
            }

            /// Like [`Scheme::tune`](crate::Scheme::tune); `size` is the length of a queue.
            pub fn tune(&mut self, other: &Aqm, size: impl Fn(usize) -> Size) -> bool {
                match (self, other) {
                    $((Aqm::$kind(each), Aqm::$kind(other)) => each.tune(other, size),)*
                    _ => false,
                }
            }

            /// The last packet of the queue was removed without an evaluation.
            pub fn emptied(&mut self, queue: usize) {
                match self { $(Aqm::$kind(each) => each.emptied(queue)),* }
            }

            /// True if it uses the flow hash.
            pub fn wants_flow_hash(&self) -> bool {
                match self { $(Aqm::$kind(each) => each.node.wants_flow_hash()),* }
            }

            /// Like [`Manage::splits_super_frames`].
            pub fn splits_super_frames(&self) -> bool {
                match self { $(Aqm::$kind(each) => each.node.splits_super_frames()),* }
            }

            /// True if packets may bypass it while the queue is empty.
            pub fn passes_when_idle(&self) -> bool {
                match self { $(Aqm::$kind(each) => each.node.passes_when_idle()),* }
            }
        }

        $(impl From<NodeQueues<super::$kind>> for Aqm {
            fn from(each: NodeQueues<super::$kind>) -> Aqm {
                Aqm::$kind(each)
            }
        })*
    };
}

// The two ends of a FIFO are one scheme, and not among the managers.
macro_rules! with_fifo {
    ($($kind:ident)*) => {
        nodes!(Head Tail $($kind)*);
    };
}
managers!(with_fifo);

impl Aqm {
    /// Builds the node `name` for `queues` queues.
    pub fn of(name: &str, options: &Values<'_>, queues: usize) -> Result<Aqm, BuildError> {
        fn each<M: Manage>(node: M, queues: usize) -> Aqm
        where
            Aqm: From<NodeQueues<M>>,
        {
            NodeQueues::new(node, queues).into()
        }
        macro_rules! named {
            ($($node:ident)*) => {
                match name {
                    "fifo" => match options.choice("drop", fifo::DROPS)? {
                        fifo::Drop::Tail => each(fifo::bounds(options)?, queues),
                        fifo::Drop::Head => each(Head(fifo::bounds(options)?), queues),
                    },
                    $(name if name == super::$node::DECLARATION.name => each(super::$node::of(options)?, queues),)*
                    other => return Err(BuildError::Unknown(other.to_string())),
                }
            };
        }
        Ok(managers!(named))
    }
}
