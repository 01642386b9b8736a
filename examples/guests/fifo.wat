;; First in, first out, as a guest in WebAssembly text: the whole interface by hand, as an example.
;; crates/extension/src/block.rs has the layout of the block, which is at 1024 here.
(module
  (memory (export "memory") 1)
  (data (i32.const 8)
    "summary First in, first out, in text.\n"
    "option limit count 1000 1 10000 Packets that wait at most.\n"
    "option hold switch off - - Let nothing leave.\00")
  (global $waiting (mut i32) (i32.const 0))

  (func (export "switchpath_version") (result i32) (i32.const 1))
  (func (export "switchpath_describe") (result i32) (i32.const 8))
  (func (export "switchpath_block") (result i32) (i32.const 1024))

  ;; One queue, with the limit of the first option.
  (func (export "switchpath_start") (result i32)
    (i32.store (i32.const 1060) (i32.const 1))
    (i32.store (i32.const 1064) (i32.wrap_i64 (i64.load (i32.const 1088))))
    (i32.const 0))

  ;; The time of the next call: never while the queue is empty, far in the future while held, else as soon as there is room.
  (func $after
    (i64.store (i32.const 1048)
      (if (result i64) (i32.eqz (global.get $waiting))
        (then (i64.const -1))
        (else (if (result i64) (i64.eqz (i64.load (i32.const 1096)))
          (then (i64.const 0))
          (else (i64.const 0x7fffffffffffffff)))))))

  ;; A verdict for each record: queue 0 plus one, or zero if the queue is full.
  (func (export "switchpath_arrive") (local $i i32) (local $fits i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (i32.load (i32.const 1040))))
        (local.set $fits (i32.lt_u (global.get $waiting) (i32.load (i32.const 1064))))
        (i32.store16 (i32.add (i32.const 3264) (i32.shl (local.get $i) (i32.const 1))) (local.get $fits))
        (global.set $waiting (i32.add (global.get $waiting) (local.get $fits)))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (call $after))

  ;; A command for each packet to send: limited by the queue, the host's request and the link's room.
  (func (export "switchpath_ready") (local $i i32)
    (block $done
      (br_if $done (i64.ne (i64.load (i32.const 1096)) (i64.const 0)))
      (loop $next
        (br_if $done (i32.eqz (global.get $waiting)))
        (br_if $done (i32.ge_u (local.get $i) (i32.load (i32.const 1040))))
        (br_if $done (i32.ge_u (local.get $i) (i32.load (i32.const 1044))))
        (i32.store (i32.add (i32.const 1216) (i32.shl (local.get $i) (i32.const 2))) (i32.const 0x01000000))
        (global.set $waiting (i32.sub (global.get $waiting) (i32.const 1)))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (i32.store (i32.const 1056) (local.get $i))
    (call $after))

  ;; The host gives the queue length.
  (func (export "switchpath_recount")
    (if (i32.and (i32.load (i32.const 1044)) (i32.const 1))
      (then (global.set $waiting (i32.const 0))))
    (global.set $waiting (i32.add (global.get $waiting) (i32.load (i32.const 1040))))
    (call $after)))
