;; A packet function that calls a service of the router and writes a word of its memory for each packet, and passes all packets (Pradhan and Chiueh
;; 2002, section 5.4). crates/extension/src/function_block.rs has the layout of the block, which is at 1024.
(module
  (import "switchpath" "clock" (func $clock (result i64)))
  (memory (export "memory") 1)
  (data (i32.const 8) "summary Calls a service and writes a word for each packet.\0a\00")
  (func (export "switchpath_function") (result i32) (i32.const 1))
  (func (export "switchpath_describe") (result i32) (i32.const 8))
  (func (export "switchpath_block") (result i32) (i32.const 1024))
  (func (export "switchpath_start") (result i32)
    (i32.store (i32.const 1040) (i32.const 0))    ;; bytes of each packet
    (i32.store (i32.const 1044) (i32.const 4096)) ;; the area for them
    (i32.store (i32.const 1048) (i32.const 64))   ;; the most packets of a call
    (i32.store (i32.const 1052) (i32.const 0))    ;; what it uses
    (i32.const 0))
  (func (export "switchpath_process")
    (local $left i32)
    (local.set $left (i32.load (i32.const 1032)))
    (block $end
      (loop $packet
        (br_if $end (i32.eqz (local.get $left)))
        (i64.store (i32.const 8192) (call $clock))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $packet)))))
