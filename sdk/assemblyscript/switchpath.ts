/**
 * Queueing schemes for Switchpath in AssemblyScript: the complete kit for guests.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Write a class that extends `Scheme`, and describe and construct it in one call:
 *
 *     import { Scheme, Packet, install, option, enqueue, send, packets } from "./switchpath";
 *     export * from "./exports";
 *     install("summary The scheme in one sentence.\noption limit count 1000 1 10000 Packets that wait at most.",
 *             () => new Mine());
 *
 * Its methods may call the functions below. They record commands, which the router validates and executes after the method has returned.
 * Packet bytes are not accessible. There is one thread and 1 MiB of memory. Memory from `new` is never freed: allocate in the
 * constructor only. docs/operate/guests.md has more. `switchpath guest check` runs the conformance tests.
 */

/** A packet's record. */
@final
export class Packet {
  /** Arrival time at this router, in nanoseconds. */
  timestamp: u64 = 0;
  /** Its length on the link, in bytes. */
  length: u32 = 0;
  /** Hash of its flow: of arriving packets, with `FLOWS` in `wants`. */
  flowHash: u32 = 0;
  /** Hash of its source address; with `HOSTS` in `wants`. */
  source: u32 = 0;
  /** Hash of its destination address; with `HOSTS` in `wants`. */
  destination: u32 = 0;
  /** The queue chosen by its path. */
  queue: u16 = 0;
  /** The class of its path. */
  class: u8 = 0;
  /** Its code point (RFC 2474); with `HOSTS` in `wants`. */
  dscp: u8 = 0;
  /** Its ECN bits (RFC 3168): 0 not capable, 1 and 2 capable, 3 congestion experienced. */
  ecn: u8 = 0;
}

/** For `Scheme.wants`: the scheme reads `flowHash`. */
export const FLOWS: u32 = 1;
/** The scheme reads `source`, `destination` and `dscp`. */
export const HOSTS: u32 = 2;
/** Packets at an idle link may bypass the scheme, because it would send them at once and unchanged. */
export const PASSES: u32 = 4;
/** A higher class leaves before a lower one. */
export const RANKS: u32 = 8;

/** A queueing scheme. */
export abstract class Scheme {
  /** Number of queues, 1 to 32766. */
  queues: u32 = 1;
  /** Maximum number of packets in all queues, up to 16384. */
  holds: u32 = 16384;
  /** Fields that it reads, and properties: a sum of `FLOWS`, `HOSTS`, `PASSES`, `RANKS`. */
  wants: u32 = 0;
  /** A packet arrives: enqueue it, or it is dropped. The next call reuses the object: keep numbers, not the packet. */
  abstract arrival(packet: Packet): void;
  /** The link is ready: send or drop one packet. Called again as long as it did something. */
  abstract ready(): void;
  /** The router has changed the queues: update your own counts. */
  recount(): void {}
}

// @ts-ignore: decorator
@external("switchpath", "log")
declare function logBytes(at: usize, length: u32): void;
// @ts-ignore: decorator
@external("switchpath", "counter")
declare function counter(which: u32, more: u64): void;
// @ts-ignore: decorator
@external("switchpath", "random")
declare function chance(): u64;

/** The memory block shared by guest and router. The numbers after it are the offsets of its fields. */
const BLOCK = memory.data(10944, 8);
const RATE: usize = 8, COUNT: usize = 16, ROOM: usize = 20, NEXT: usize = 24, GIVEN: usize = 32;
const QUEUES: usize = 36, HOLDS: usize = 40, FLAGS: usize = 44;
const OPTION: usize = 64, COMMAND: usize = 192, VERDICT: usize = 2240, RECORD: usize = 2752;
const MOST: u32 = 16384, COMMANDS: u32 = 512, EVALUATIONS: u32 = 32, NONE: u16 = 0xffff, MARK: u16 = 0x8000;
const SEND: u32 = 1, SEND_MARKED: u32 = 2, DROP_FRONT: u32 = 3, DROP_TAIL: u32 = 4;

/** A queued packet, and its neighbours in the queue. */
@unmanaged
class Place {
  timestamp: u64;
  length: u32;
  before: u16;
  behind: u16;
  queue: u16;
  class: u8;
  ecn: u8;
}

@unmanaged
class Line {
  bytes: u64;
  packets: u32;
  first: u16;
  last: u16;
}

let text = new ArrayBuffer(1);
let make: () => Scheme = () => unreachable();
let scheme: Scheme | null = null;
let places: usize = 0;
let lines: usize = 0;
let queues: u32 = 0;
let most: u32 = 0;
/** The first slot of the free list, and the number of slots ever used; packets in all queues. */
let free: u16 = NONE;
let used: u32 = 0;
let waiting: u32 = 0;
/** Of this call: room of the link, maximum and actual number of commands, and the number of the arriving packet. */
let room: u32 = 0;
let left: u32 = 0;
let given: u32 = 0;
let seen: u32 = 0;
let arriving: bool = false;
let sent: bool = false;
let until: u64 = 0;
const arrived = new Packet();
const first = new Packet();

/** Registers this guest: its description, and the constructor of the scheme, called when its options are known. */
export function install(description: string, maker: () => Scheme): void {
  text = String.UTF8.encode(description, true);
  make = maker;
}

/** The time of this call, in nanoseconds. It is constant within a call. */
export function now(): u64 { return load<u64>(BLOCK); }
/** The rate of the link, in bits per second. */
export function linkRate(): u64 { return load<u64>(BLOCK + RATE); }
/** The value of an option, counted from 0: packets, bits per second, nanoseconds, bytes or millionths; a switch is 0 or 1. */
export function option(which: u32): u64 { return which < 16 ? load<u64>(BLOCK + OPTION + which * 8) : 0; }
/** Packets in a queue. */
export function packets(queue: u32): u32 { return queue < queues ? line(queue).packets : 0; }
/** Bytes in a queue. */
export function bytes(queue: u32): u64 { return queue < queues ? line(queue).bytes : 0; }
/** Packets in all queues. */
export function backlog(): u32 { return waiting; }
/** Logs one line for the operator. */
export function log(line: string): void {
  const encoded = String.UTF8.encode(line);
  logBytes(changetype<usize>(encoded), encoded.byteLength);
}
/** Adds to one of eight counters, 0 to 7. */
export function count(which: u32, more: u64): void { counter(which, more); }
/** A random number. The sequence is the same after each start. */
export function random(): u64 { return chance(); }

/** The record of the first packet of a queue, without hashes and code point; null if the queue is empty. */
export function head(queue: u32): Packet | null {
  if (packets(queue) == 0) return null;
  const at = place(line(queue).first);
  first.timestamp = at.timestamp;
  first.length = at.length;
  first.queue = at.queue;
  first.class = at.class;
  first.ecn = at.ecn;
  return first;
}

/** Enqueues the arriving packet. False if there is no room or no such queue; the packet is then dropped. */
export function enqueue(queue: u32): bool {
  if (!arriving) return false;
  arriving = false;
  const fits = push(queue, BLOCK + RECORD + (seen - 1) * 32);
  const verdict = BLOCK + VERDICT + (seen - 1) * 2;
  store<u16>(verdict, fits ? load<u16>(verdict) | <u16>(queue + 1) : 0);
  return fits;
}

/** Drops the first packet of a queue. False if it is empty, or this call has no room for more commands. */
export function dropFront(queue: u32): bool {
  if (!command(DROP_FRONT, queue)) return false;
  take(queue, true);
  return true;
}

/** Drops the last packet of a queue. False as above. */
export function dropTail(queue: u32): bool {
  if (!command(DROP_TAIL, queue)) return false;
  take(queue, false);
  return true;
}

/** Sends the first packet of a queue. False if it is empty, the link has no room, or this call has no room for more commands. */
export function send(queue: u32): bool {
  if (room == 0 || !command(SEND, queue)) return false;
  sent = place(line(queue).first).ecn != 0;
  take(queue, true);
  room--;
  return true;
}

/** Sets congestion experienced on the last packet sent in this call, or on the arriving one (before `enqueue`).
 *  False if its sender does not support ECN. */
export function mark(): bool {
  if (arriving) {
    const record = BLOCK + RECORD + (seen - 1) * 32, verdict = BLOCK + VERDICT + (seen - 1) * 2;
    if (load<u8>(record, 28) == 0) return false;
    store<u8>(record, 3, 28);
    store<u16>(verdict, load<u16>(verdict) | MARK);
    return true;
  }
  if (!sent) return false;
  const last = BLOCK + COMMAND + (given - 1) * 4;
  store<u32>(last, (load<u32>(last) & 0x00ffffff) | (SEND_MARKED << 24));
  return true;
}

/** In `ready`: packets are queued, but none may leave before that time. */
export function waitUntil(time: u64): void { until = time; }

// @ts-ignore: decorator
@inline
function line(queue: u32): Line { return changetype<Line>(lines + queue * offsetof<Line>()); }
// @ts-ignore: decorator
@inline
function place(number: u32): Place { return changetype<Place>(places + number * offsetof<Place>()); }

function push(queue: u32, record: usize): bool {
  if (queue >= queues) return false;
  let number: u32 = free;
  if (number != NONE) free = place(number).behind;
  else if (used < most) number = used++;
  else return false;
  const to = line(queue), at = place(number);
  at.timestamp = load<u64>(record);
  at.length = load<u32>(record, 8);
  at.before = to.last;
  at.behind = NONE;
  at.queue = load<u16>(record, 24);
  at.class = load<u8>(record, 26);
  at.ecn = load<u8>(record, 28);
  if (to.packets == 0) to.first = <u16>number;
  else place(to.last).behind = <u16>number;
  to.last = <u16>number;
  to.packets++;
  to.bytes += at.length;
  waiting++;
  return true;
}

function take(queue: u32, front: bool): void {
  const from = line(queue), number = front ? from.first : from.last, at = place(number);
  from.bytes -= at.length;
  from.packets--;
  waiting--;
  if (front) from.first = at.behind;
  else from.last = at.before;
  at.behind = free;
  free = number;
}

function command(act: u32, queue: u32): bool {
  if (left == 0 || packets(queue) == 0) return false;
  // The command is executed before the verdict of the arriving packet, or after it if the verdict was already given.
  const at = arriving ? seen - 1 : seen;
  store<u32>(BLOCK + COMMAND + given * 4, (act << 24) | (at << 16) | queue);
  given++;
  left--;
  sent = false;
  return true;
}

function enter(takes: u32, may: u32): void {
  room = takes;
  left = may;
  given = seen = 0;
  arriving = sent = false;
  until = 0;
}

/** The time of the next call: never while the queues are empty; else the given time, or as soon as the link is ready. */
function leave(): void {
  store<u32>(BLOCK + GIVEN, given);
  store<u64>(BLOCK + NEXT, waiting == 0 ? u64.MAX_VALUE : min(until, u64.MAX_VALUE - 1));
}

// The functions that the router calls: see exports.ts.

export function switchpath_version(): i32 { return 1; }
export function switchpath_describe(): i32 { return <i32>changetype<usize>(text); }
export function switchpath_block(): i32 { return <i32>BLOCK; }

export function switchpath_start(): i32 {
  refused = false;
  const made = make();
  if (refused) return 1;
  scheme = made;
  queues = made.queues;
  most = min(made.holds, MOST);
  places = heap.alloc(most * offsetof<Place>());
  lines = heap.alloc(queues * offsetof<Line>());
  memory.fill(lines, 0, queues * offsetof<Line>());
  store<u32>(BLOCK + QUEUES, queues);
  store<u32>(BLOCK + HOLDS, most);
  store<u32>(BLOCK + FLAGS, made.wants);
  return 0;
}

let refused: bool = false;

/** In the constructor: refuses these options, with the reason. */
export function refuse(why: string): void {
  log(why);
  refused = true;
}

export function switchpath_arrive(): void {
  enter(0, COMMANDS);
  const it = scheme!, all = load<u32>(BLOCK + COUNT);
  while (seen < all) {
    const record = BLOCK + RECORD + seen * 32;
    store<u16>(BLOCK + VERDICT + seen * 2, 0);
    arrived.timestamp = load<u64>(record);
    arrived.length = load<u32>(record, 8);
    arrived.flowHash = load<u32>(record, 12);
    arrived.source = load<u32>(record, 16);
    arrived.destination = load<u32>(record, 20);
    arrived.queue = load<u16>(record, 24);
    arrived.class = load<u8>(record, 26);
    arrived.dscp = load<u8>(record, 27);
    arrived.ecn = load<u8>(record, 28);
    arriving = true;
    seen++;
    it.arrival(arrived);
    arriving = false;
  }
  // Zero: as soon as the link is ready. Only `ready` decides whether a packet may leave.
  until = 0;
  leave();
}

export function switchpath_ready(): void {
  enter(load<u32>(BLOCK + ROOM), min(load<u32>(BLOCK + COUNT), EVALUATIONS));
  const it = scheme!;
  while (room > 0 && left > 0) {
    const before = given;
    until = 0;
    sent = false;
    it.ready();
    if (given == before) break;
  }
  leave();
}

export function switchpath_recount(): void {
  const part = load<u32>(BLOCK + ROOM);
  enter(0, 0);
  if (part & 1) {
    free = NONE;
    used = waiting = 0;
    memory.fill(lines, 0, queues * offsetof<Line>());
  }
  for (let which: u32 = 0, all = load<u32>(BLOCK + COUNT); which < all; which++) {
    const record = BLOCK + RECORD + which * 32;
    push(load<u16>(record, 24), record);
  }
  if (part & 2) scheme!.recount();
  leave();
}

/** Ends a guest that fails: the router sees a trap, and serves the queues without it. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  log((message || "it failed") + " (" + (file || "") + ":" + line.toString() + ")");
  unreachable();
}
