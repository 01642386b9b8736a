//! Carries out a guest's decisions on its queues. Each decision is checked before it is carried out. After the first invalid one the rest is
//! discarded.

use crate::block::{BlockView, COMMANDS, MARK, QueueAction, QueueCommand};
use crate::fallback::Fallback;
use schemes::Ahead;
use units::QueueId;

/// The host's record of the guest's queues, besides the wires.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueCounts {
    /// The number of queues.
    pub queues: u16,
    /// Packets that wait in all queues.
    pub backlog: u32,
    /// The guest's view of its queues may be wrong; a recount is due.
    pub stale: bool,
}

/// A description of an invalid decision.
pub(crate) type InvalidDecision = String;

/// Carries out the verdicts on the first `count` arriving packets, and the commands between them. All of the packets have arrived afterwards.
pub(crate) fn apply_verdicts<W: Ahead>(
    view: BlockView<'_>,
    count: usize,
    counts: &mut QueueCounts,
    wires: &mut W,
) -> Result<(), InvalidDecision> {
    let commands = view.commands();
    if commands > COMMANDS {
        return Err(format!("it returns {commands} commands, more than {COMMANDS}"));
    }
    let mut given = 0;
    for place in 0..count {
        // Drops come first, because they may make room for this packet.
        let dropped = if given < commands { drops(view, &mut given, commands, place, counts, wires) } else { Ok(()) };
        if !wires.advance() {
            break;
        }
        if let Err(wrong) = dropped.and_then(|()| apply_verdict(view.verdict(place), counts, wires)) {
            // This packet is still admitted if there is room. The packets behind it have not arrived yet.
            Fallback::admit(wires, &mut counts.backlog);
            return Err(wrong);
        }
    }
    drops(view, &mut given, commands, count, counts, wires)?;
    if given < commands { Err("its commands are not in the order of the packets".into()) } else { Ok(()) }
}

/// Carries out the commands before the verdict on the packet at `place`.
fn drops<W: Ahead>(
    view: BlockView<'_>,
    given: &mut usize,
    commands: usize,
    place: usize,
    counts: &mut QueueCounts,
    wires: &mut W,
) -> Result<(), InvalidDecision> {
    while *given < commands {
        let order = view.command(*given).ok_or_else(unknown_action)?;
        if usize::from(order.place) != place {
            return Ok(());
        }
        *given += 1;
        match order.action {
            QueueAction::DropFront | QueueAction::DropTail => drop_one(order, counts, wires)?,
            QueueAction::Send | QueueAction::SendMarked => return Err("it sends when packets arrive".into()),
        }
    }
    Ok(())
}

#[cold]
fn unknown_queue(queue: u16, counts: &QueueCounts) -> InvalidDecision {
    format!("it enqueues a packet to queue {queue}, but has {} queues", counts.queues)
}

#[cold]
fn unknown_action() -> InvalidDecision {
    "it returns an unknown command".into()
}

#[inline(always)]
fn apply_verdict<W: Ahead>(verdict: u16, counts: &mut QueueCounts, wires: &mut W) -> Result<(), InvalidDecision> {
    if verdict & MARK != 0 {
        // `mark` does nothing if the sender does not support ECN.
        wires.mark();
    }
    let Some(queue) = (verdict & !MARK).checked_sub(1) else { return Ok(()) };
    // The guest's number of queues is checked here, because the link may have more.
    if queue >= counts.queues {
        return Err(unknown_queue(queue, counts));
    }
    if wires.enqueue(QueueId(queue.into())) {
        counts.backlog += 1;
    } else {
        // The link had no room, but the guest counts the packet as queued.
        counts.stale = true;
    }
    Ok(())
}

fn drop_one<W: Ahead>(order: QueueCommand, counts: &mut QueueCounts, wires: &mut W) -> Result<(), InvalidDecision> {
    // The host dequeues; a guest only names the queue. So it can drop a packet at most once.
    let dropped = match order.action {
        QueueAction::DropFront => wires.drop_front(order.queue),
        _ => wires.drop_tail(order.queue),
    };
    if dropped.is_none() {
        return Err(format!("it drops from queue {}, which is empty", order.queue));
    }
    counts.backlog = counts.backlog.saturating_sub(1);
    Ok(())
}

/// Carries out the evaluation commands, at most `most`. Returns the number of commands.
pub(crate) fn apply_evaluations<W: Ahead>(
    view: BlockView<'_>,
    most: usize,
    counts: &mut QueueCounts,
    wires: &mut W,
) -> Result<usize, InvalidDecision> {
    let commands = view.commands();
    if commands > most {
        return Err(format!("it returns {commands} commands, more than {most}"));
    }
    for which in 0..commands {
        let order = view.command(which).ok_or_else(unknown_action)?;
        let marked = match order.action {
            QueueAction::DropFront | QueueAction::DropTail => {
                drop_one(order, counts, wires)?;
                continue;
            }
            QueueAction::Send => false,
            QueueAction::SendMarked => true,
        };
        if !wires.link_ready() {
            return Err("it sends more than the link accepts".into());
        }
        if wires.dequeue(order.queue).is_none() {
            return Err(format!("it sends from queue {}, which is empty", order.queue));
        }
        if marked {
            wires.mark();
        }
        wires.transmit();
        counts.backlog = counts.backlog.saturating_sub(1);
    }
    Ok(commands)
}
