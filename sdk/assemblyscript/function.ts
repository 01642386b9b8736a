/**
 * Packet functions for Switchpath in AssemblyScript: the complete kit for guests on a path.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Write a class that extends `PacketFunction`, and describe and construct it in one call:
 *
 *     import { DROP, PASS, Packet, PacketFunction, install, option } from "./switchpath";
 *     export * from "./exports";
 *     install("summary The function in one sentence.\noption limit size 1400b 20 65535 The longest packet.", () => new Mine());
 *
 * A call has up to 64 packets and may take about 100 us. There is one thread and 1 MiB of memory. Memory from `new` is never freed: allocate in the
 * constructor only. docs/operate/guest-functions.md has more. `switchpath guest check` tests the function.
 */

/** A packet. */
@final
export class Packet {
  /** Its record in the block, and its bytes. */
  record: usize = 0;
  bytes: usize = 0;

  /** The time of its arrival, in nanoseconds. */
  get timestamp(): u64 {
    return load<u64>(this.record);
  }
  /** Its length from the IP header on, in bytes. The function may see fewer: `shown`. */
  get length(): u32 {
    return load<u32>(this.record, 8);
  }
  /** The word that an earlier function of its path has set; zero at first. Changes need `WORDS`. */
  get word(): u32 {
    return load<u32>(this.record, 12);
  }
  set word(word: u32) {
    store<u32>(this.record, word, 12);
  }
  /** The hash of its flow; with `FLOWS`. */
  get flow(): u32 {
    return load<u32>(this.record, 16);
  }
  /** The number of bytes that the function sees. */
  get shown(): u32 {
    return load<u16>(this.record, 20);
  }
  /** The offset of its transport header, 0 for none; with `FIELDS`. */
  get transport(): u32 {
    return load<u16>(this.record, 22);
  }
  /** The offset of its TCP or UDP payload, 0 for none; with `FIELDS`. */
  get payload(): u32 {
    return load<u16>(this.record, 24);
  }
  /** The number of its ingress port. */
  get inPort(): u32 {
    return load<u16>(this.record, 26);
  }
  /** Its transport protocol; with `FIELDS`. */
  get protocol(): u8 {
    return load<u8>(this.record, 28);
  }
  /** True if it is IPv6. */
  get isIpv6(): bool {
    return (load<u8>(this.record, 29) & 1) != 0;
  }
  /** True if its checksum is not complete, or it is to be segmented: do not update the transport checksum. */
  get isPending(): bool {
    return (load<u8>(this.record, 29) & 2) != 0;
  }
  /** The class of its path. */
  get pathClass(): u8 {
    return load<u8>(this.record, 30);
  }
  /** The byte at an offset from the IP header; 0 beyond `shown`. */
  byte(at: u32): u8 {
    return at < this.shown ? load<u8>(this.bytes + at) : 0;
  }
  /** Changes a byte; with `WRITES`. */
  setByte(at: u32, value: u8): void {
    if (at < this.shown) store<u8>(this.bytes + at, value);
  }
}

/** For `PacketFunction.needs`: it reads `flow`. Each need costs time for each packet. */
export const FLOWS: u32 = 1;
/** It reads `transport`, `payload` and `protocol`. */
export const FIELDS: u32 = 2;
/** It changes bytes of packets. */
export const WRITES: u32 = 4;
/** It changes `word`. */
export const WORDS: u32 = 8;

/** The verdict that a packet continues. */
export const PASS: u32 = 0;
/** The verdict that a packet is dropped. */
export const DROP: u32 = 1;
/** The verdict that a rule of the path's guest_rules applies. */
export function rule(number: u32): u32 {
  return number + 2;
}

/** A packet function. */
export abstract class PacketFunction {
  /** Bytes of each packet that it sees, from the IP header on: 0 to 2048. */
  bytes: u32 = 0;
  /** What it uses: a sum of `FLOWS`, `FIELDS`, `WRITES`, `WORDS`. */
  needs: u32 = 0;
  /** Decides on a packet. The next call reuses the object: keep numbers, not the packet. */
  abstract packet(packet: Packet): u32;
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
// @ts-ignore: decorator
@external("switchpath", "clock")
declare function clock(): u64;
// @ts-ignore: decorator
@external("switchpath", "rule")
declare function ruleText(number: u32, at: usize, room: u32): i32;
// @ts-ignore: decorator
@external("switchpath", "lookup")
declare function route(at: usize, length: u32): i32;
// @ts-ignore: decorator
@external("switchpath", "emit")
declare function emitBytes(at: usize, length: u32): i32;

/** The memory block shared by guest and router. The numbers after it are the offsets of its fields. */
const BLOCK = memory.data(2368, 8);
const COUNT: usize = 8, BYTES: usize = 16, AREA: usize = 20, MOST_AT: usize = 24, FLAGS: usize = 28;
const OPTION: usize = 64, VERDICT: usize = 192, RECORD: usize = 320;
const MOST: u32 = 64;
/** Version, address and length of the state that survives a new build. */
const STATE = memory.data(12, 8);

let text = new ArrayBuffer(1);
let make: () => PacketFunction = () => unreachable();
let it: PacketFunction | null = null;
let area: usize = 0;
let stride: usize = 0;
let refused: bool = false;
const shown = new Packet();

/** Registers this guest: its description, and the constructor of the function, called when its options are known. */
export function install(description: string, maker: () => PacketFunction): void {
  text = String.UTF8.encode(description, true);
  make = maker;
}

/** The value of an option, in the order of the description: a number, bits per second, nanoseconds, bytes or millionths. */
export function option(place: u32): u64 {
  return place < 15 ? load<u64>(BLOCK + OPTION + place * 8) : 0;
}

/** In the constructor: refuses these options, with the reason. */
export function refuse(why: string): void {
  log(why);
  refused = true;
}

/** Keeps `length` bytes at an address of `memory.data` when a new build replaces this one. Count the version up if their meaning changes. */
export function keep(at: usize, length: u32, version: u32): void {
  store<u32>(STATE, version);
  store<u32>(STATE + 4, <u32>at);
  store<u32>(STATE + 8, length);
}

/** The time of the call, in nanoseconds. */
export function now(): u64 {
  return clock();
}

/** A random number. The sequence is the same after each start. */
export function random(): u64 {
  return chance();
}

/** Adds to one of eight counters, in the order of the description. */
export function count(which: u32, more: u64): void {
  counter(which, more);
}

/** Logs one line for the operator. */
export function log(line: string): void {
  const bytes = String.UTF8.encode(line);
  logBytes(changetype<usize>(bytes), bytes.byteLength);
}

/** The text of a rule of the path's guest_rules; null if there is no such rule. For the constructor: it allocates. */
export function textOfRule(number: u32): string | null {
  const room = new ArrayBuffer(256);
  const length = ruleText(number, changetype<usize>(room), 256);
  return length < 0 ? null : String.UTF8.decodeUnsafe(changetype<usize>(room), min(<usize>length, 256));
}

/** The number of the port to the next hop of an address of 4 or 16 bytes; -1 if there is none, -2 for an address of the router. */
export function lookup(address: usize, length: u32): i32 {
  return route(address, length);
}

/** Makes an IP packet of these bytes, which is classified like a received one. Returns false if it is refused. */
export function emit(packet: usize, length: u32): bool {
  return emitBytes(packet, length) == 1;
}

export function switchpath_function(): i32 {
  return 1;
}
export function switchpath_describe(): usize {
  return changetype<usize>(text);
}
export function switchpath_block(): usize {
  return BLOCK;
}
export function switchpath_state(): usize {
  return STATE;
}

export function switchpath_start(): i32 {
  refused = false;
  const made = make();
  if (refused) return 1;
  it = made;
  stride = ((<usize>made.bytes + 7) / 8) * 8;
  area = heap.alloc(stride * MOST + 8);
  area = (area + 7) / 8 * 8;
  store<u32>(BLOCK + BYTES, made.bytes);
  store<u32>(BLOCK + AREA, <u32>area);
  store<u32>(BLOCK + MOST_AT, MOST);
  store<u32>(BLOCK + FLAGS, made.needs);
  return 0;
}

export function switchpath_process(): void {
  const mine = it!;
  for (let which: u32 = 0, all = min(load<u32>(BLOCK + COUNT), MOST); which < all; which++) {
    shown.record = BLOCK + RECORD + <usize>which * 32;
    shown.bytes = area + <usize>which * stride;
    store<u16>(BLOCK + VERDICT + which * 2, <u16>mine.packet(shown));
  }
}

/** Ends a guest that fails: the router sees a trap, and works on without it. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  log((message || "it failed") + " (" + (file || "") + ":" + line.toString() + ")");
  unreachable();
}
