/**
 * Code options of slices for Switchpath in AssemblyScript: the complete kit for guests in slices.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Write a class that extends `SliceCode`, and describe and construct it in one call:
 *
 *     import { MALFORMED, NEXT, InnerPacket, SliceCode, install, option } from "./switchpath";
 *     export * from "./exports";
 *     install("summary The code option in one sentence.\nmemory 64\noption ttl count 2 2 255 The smallest time to live.", () => new Mine());
 *
 * State that must survive a new build lies in the memory of the slice. A call has up to 64 packets and may take about 100 us. There is one thread and
 * 1 MiB of memory. Memory from `new` is never freed: allocate in the constructor only. docs/operate/guest-slices.md has more. `switchpath guest check`
 * tests it.
 */

/** A packet without its outer headers. */
@final
export class InnerPacket {
  /** Its record in the block, its number, and the address of its first byte at first. */
  record: usize = 0;
  number: u32 = 0;
  bytes: usize = 0;

  /** Its length in bytes. The code option may see fewer: `shown`. */
  get length(): u32 {
    return load<u32>(this.record);
  }
  /** The number of bytes that the code option sees, from the first byte at first. */
  get shown(): u32 {
    return load<u16>(this.record, 4);
  }
  /** The meta-interface by which it arrived. */
  get arrival(): u32 {
    return load<u16>(this.record, 6);
  }
  /** In `format`: the number of the slice's queue. */
  get queue(): u32 {
    return load<u16>(this.record, 8);
  }
  /** In `format`: the meta-interface by which it leaves. */
  get departure(): u32 {
    return load<u16>(this.record, 10);
  }
  /** In `format`: bytes removed from its front; negative: added. */
  get front(): i32 {
    return load<i16>(this.record, 14);
  }
  /** Writes a byte of the key, 0 to 13. The key is zero before. */
  setKey(at: u32, value: u8): void {
    if (at < 14) store<u8>(this.record + at, value, 16);
  }
  /** In `format`: a byte of the data of the filter, 0 to 31. */
  data(at: u32): u8 {
    return at < 32 ? load<u8>(this.record + at, 32) : 0;
  }
  /** The byte at an offset from the first byte at first; 0 beyond `shown`. */
  byte(at: u32): u8 {
    return at < this.shown ? load<u8>(this.bytes + at) : 0;
  }
  /** In `format`, changes a byte. Offsets are those of `byte`; negative ones are in the added front. Needs `EDITS`. */
  setByte(at: i32, value: u8): void {
    if (at >= min(this.front, 0) && at < <i32>this.shown) store<u8>(this.bytes + at, value);
  }
  /** In `format`, removes bytes from its front; negative: adds. False if there is no room. Needs `EDITS`. */
  moveFront(by: i32): bool {
    const moved = this.front + by;
    if (by > <i32>this.length || moved < -(<i32>room)) return false;
    store<i16>(this.record, <i16>moved, 14);
    store<u32>(this.record, this.length - by);
    return true;
  }
  /** In `format`, removes all bytes from a length on. False if it is shorter. Needs `EDITS`. */
  truncate(length: u32): bool {
    if (length > this.length) return false;
    store<u32>(this.record, length);
    return true;
  }
  /** The word of the slice's memory at an offset, a multiple of 8. Beyond the memory it is zero, and the packet is lost. */
  load(offset: u32): u64 {
    return loadWord(this.number, offset);
  }
  /** Writes the word at an offset. */
  store(offset: u32, value: u64): void {
    storeWord(this.number, offset, value);
  }
  /** Adds to the word at an offset, and returns the value before. No addition of another worker is lost. */
  add(offset: u32, value: u64): u64 {
    return addWord(this.number, offset, value);
  }
}

/** For `SliceCode.needs`: `format` changes packets. */
export const EDITS: u32 = 1;
/** `format` is never called: packets are sent as they are. */
export const PASSES: u32 = 2;

/** The verdict that a packet continues: its key is looked up, or it is sent. */
export const NEXT: u32 = 0;
/** The verdict that its header is wrong: it is dropped. */
export const MALFORMED: u32 = 1;
/** The verdict that it is dropped. */
export const POLICY: u32 = 2;
/** The verdict of `format` that the filters are searched once more, by its key. */
export const AGAIN: u32 = 64;

/** Codes of exceptions. */
export const TTL: u32 = 1;
export const OPTIONS: u32 = 2;
export const LOCAL: u32 = 3;
export const MULTI_MATCH: u32 = 4;
export const SOFT_HEADER: u32 = 5;
export const MTU: u32 = 6;
/** A code of the slice's own, 0 to 15. */
export function own(number: u32): u32 {
  return 8 + min(number, 15);
}
/** The verdict that a packet goes to the slow path, as it was. */
export function exception(code: u32): u32 {
  return 3 + code;
}

/** A code option. */
export abstract class SliceCode {
  /** Bytes of each packet that it sees: 0 to 2048. */
  bytes: u32 = 0;
  /** A sum of `EDITS` and `PASSES`. */
  needs: u32 = 0;
  /** Bytes that `format` may add in front of a packet: 0 to 128, in steps of 8. */
  room: u32 = 0;
  /** Makes the key of a packet. The next call reuses the object: keep numbers, not the packet. */
  abstract parse(packet: InnerPacket): u32;
  /** Rewrites a packet by the result of its look-up. */
  format(_packet: InnerPacket): u32 {
    return NEXT;
  }
}

// @ts-ignore: decorator
@external("switchpath", "log")
declare function logBytes(at: usize, length: u32): void;
// @ts-ignore: decorator
@external("switchpath", "random")
declare function chance(): u64;
// @ts-ignore: decorator
@external("switchpath", "load")
declare function loadWord(packet: u32, offset: u32): u64;
// @ts-ignore: decorator
@external("switchpath", "store")
declare function storeWord(packet: u32, offset: u32, value: u64): void;
// @ts-ignore: decorator
@external("switchpath", "add")
declare function addWord(packet: u32, offset: u32, value: u64): u64;

/** The memory block shared by guest and router. The numbers after it are the offsets of its fields. */
const BLOCK = memory.data(4288, 8);
const COUNT: usize = 8, BYTES: usize = 16, AREA: usize = 20, MOST_AT: usize = 24, FLAGS: usize = 28, ROOM: usize = 32;
const OPTION: usize = 64, RECORD: usize = 192;
const MOST: u32 = 64;

let text = new ArrayBuffer(1);
let make: () => SliceCode = () => unreachable();
let it: SliceCode | null = null;
let area: usize = 0;
let stride: usize = 0;
let room: usize = 0;
let refused: bool = false;
const shown = new InnerPacket();

/** Registers this guest: its description, and the constructor of the code option, called when its options are known. */
export function install(description: string, maker: () => SliceCode): void {
  text = String.UTF8.encode(description, true);
  make = maker;
}

/** The value of an option, in the order of the description: a number, bits per second, nanoseconds, bytes or millionths. */
export function option(place: u32): u64 {
  return place < 16 ? load<u64>(BLOCK + OPTION + place * 8) : 0;
}

/** The bytes of the slice's memory. */
export function memorySize(): u64 {
  return load<u64>(BLOCK);
}

/** In the constructor: refuses these options, with the reason. */
export function refuse(why: string): void {
  log(why);
  refused = true;
}

/** A random number. The sequence is the same after each start. */
export function random(): u64 {
  return chance();
}

/** Logs one line, which is a part of the failure if the code option fails. */
export function log(line: string): void {
  const bytes = String.UTF8.encode(line);
  logBytes(changetype<usize>(bytes), bytes.byteLength);
}

export function switchpath_slice(): i32 {
  return 1;
}
export function switchpath_describe(): usize {
  return changetype<usize>(text);
}
export function switchpath_block(): usize {
  return BLOCK;
}

export function switchpath_start(): i32 {
  refused = false;
  const made = make();
  if (refused) return 1;
  it = made;
  room = made.room;
  stride = ((room + <usize>made.bytes + 7) / 8) * 8;
  area = heap.alloc(stride * MOST + 8);
  area = (area + 7) / 8 * 8;
  store<u32>(BLOCK + BYTES, made.bytes);
  store<u32>(BLOCK + AREA, <u32>area);
  store<u32>(BLOCK + MOST_AT, MOST);
  store<u32>(BLOCK + FLAGS, made.needs);
  store<u32>(BLOCK + ROOM, made.room);
  return 0;
}

function select(which: u32): void {
  shown.record = BLOCK + RECORD + <usize>which * 64;
  shown.number = which;
  shown.bytes = area + <usize>which * stride + room;
}

export function switchpath_parse(): void {
  const mine = it!;
  for (let which: u32 = 0, all = min(load<u32>(BLOCK + COUNT), MOST); which < all; which++) {
    select(which);
    store<u16>(shown.record, <u16>mine.parse(shown), 12);
  }
}

export function switchpath_format(): void {
  const mine = it!;
  for (let which: u32 = 0, all = min(load<u32>(BLOCK + COUNT), MOST); which < all; which++) {
    select(which);
    store<u16>(shown.record, <u16>mine.format(shown), 12);
  }
}

/** Ends a guest that fails: the router sees a trap, and suspends its slice. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  log((message || "it failed") + " (" + (file || "") + ":" + line.toString() + ")");
  unreachable();
}
