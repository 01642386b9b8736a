//! Carrying out what a guest has decided, on the queues it decides over. Each decision is looked at before it is done; at the first
//! that makes no sense the rest is left.

use crate::block::{Act, COMMANDS, MARK, Order, View};
use crate::fallback::Fallback;
use schemes::Ahead;
use units::QueueId;

/// What is known of the queues besides the wires.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Books {
    /// How many there are.
    pub queues: u16,
    /// Packets that wait in all of them.
    pub backlog: u32,
    /// The guest may think of them what is not so.
    pub stale: bool,
}

/// What makes no sense.
pub(crate) type Nonsense = String;

/// The verdicts over the first `count` packets that arrive, and the commands in between. All of them have arrived afterwards.
pub(crate) fn arrivals<W: Ahead>(
    view: View<'_>,
    count: usize,
    books: &mut Books,
    wires: &mut W,
) -> Result<(), Nonsense> {
    let commands = view.commands();
    if commands > COMMANDS {
        return Err(format!("it gives {commands} commands, and {COMMANDS} is the most"));
    }
    let mut given = 0;
    for place in 0..count {
        let dropped = if given < commands { drops(view, &mut given, commands, place, books, wires) } else { Ok(()) };
        if !wires.advance() {
            break;
        }
        if let Err(wrong) = dropped.and_then(|()| verdict(view.verdict(place), books, wires)) {
            // This one is taken all the same where there is room; those behind it are still to arrive.
            Fallback::admit(wires, &mut books.backlog);
            return Err(wrong);
        }
    }
    drops(view, &mut given, commands, count, books, wires)?;
    if given < commands { Err("its commands are not in the order of the packets".into()) } else { Ok(()) }
}

/// The commands before the verdict over the packet at `place`.
fn drops<W: Ahead>(
    view: View<'_>,
    given: &mut usize,
    commands: usize,
    place: usize,
    books: &mut Books,
    wires: &mut W,
) -> Result<(), Nonsense> {
    while *given < commands {
        let order = view.command(*given).ok_or_else(unknown)?;
        if usize::from(order.place) != place {
            return Ok(());
        }
        *given += 1;
        match order.act {
            Act::DropFront | Act::DropTail => drop_one(order, books, wires)?,
            Act::Send | Act::SendMarked => return Err("it sends when packets arrive".into()),
        }
    }
    Ok(())
}

#[cold]
fn nowhere(queue: u16, books: &Books) -> Nonsense {
    format!("it puts a packet on queue {queue}, and has {}", books.queues)
}

#[cold]
fn unknown() -> Nonsense {
    "it gives a command that there is not".into()
}

#[inline(always)]
fn verdict<W: Ahead>(verdict: u16, books: &mut Books, wires: &mut W) -> Result<(), Nonsense> {
    if verdict & MARK != 0 {
        // Where the sender does not understand it, nothing is marked.
        wires.mark();
    }
    let Some(queue) = (verdict & !MARK).checked_sub(1) else { return Ok(()) };
    if queue >= books.queues {
        return Err(nowhere(queue, books));
    }
    if wires.enqueue(QueueId(queue.into())) {
        books.backlog += 1;
    } else {
        books.stale = true;
    }
    Ok(())
}

fn drop_one<W: Ahead>(order: Order, books: &mut Books, wires: &mut W) -> Result<(), Nonsense> {
    let dropped = match order.act {
        Act::DropFront => wires.drop_front(order.queue),
        _ => wires.drop_tail(order.queue),
    };
    if dropped.is_none() {
        return Err(format!("it drops from queue {}, in which nothing waits", order.queue));
    }
    books.backlog = books.backlog.saturating_sub(1);
    Ok(())
}

/// What it does with what waits, at most so many commands. Answers how many commands that were.
pub(crate) fn evaluations<W: Ahead>(
    view: View<'_>,
    most: usize,
    books: &mut Books,
    wires: &mut W,
) -> Result<usize, Nonsense> {
    let commands = view.commands();
    if commands > most {
        return Err(format!("it gives {commands} commands, and {most} is the most"));
    }
    for which in 0..commands {
        let order = view.command(which).ok_or_else(unknown)?;
        let marked = match order.act {
            Act::DropFront | Act::DropTail => {
                drop_one(order, books, wires)?;
                continue;
            }
            Act::Send => false,
            Act::SendMarked => true,
        };
        if !wires.link_ready() {
            return Err("it sends more than the link can take".into());
        }
        if wires.dequeue(order.queue).is_none() {
            return Err(format!("it sends from queue {}, in which nothing waits", order.queue));
        }
        if marked {
            wires.mark();
        }
        wires.transmit();
        books.backlog = books.backlog.saturating_sub(1);
    }
    Ok(commands)
}
