;; A packet function that passes all packets, by hand: the smallest one, to measure what a guest costs.
;; crates/extension/src/function_block.rs has the layout of the block, which is at 1024. The area for bytes of packets is at 4096.
(module
  (memory (export "memory") 1)
  (data (i32.const 8) "summary Passes all packets.\0a\00")
  (func (export "switchpath_function") (result i32) (i32.const 1))
  (func (export "switchpath_describe") (result i32) (i32.const 8))
  (func (export "switchpath_block") (result i32) (i32.const 1024))
  (func (export "switchpath_start") (result i32)
    (i32.store (i32.const 1040) (i32.const 0))    ;; bytes of each packet
    (i32.store (i32.const 1044) (i32.const 4096)) ;; the area for them
    (i32.store (i32.const 1048) (i32.const 64))   ;; the most packets of a call
    (i32.store (i32.const 1052) (i32.const 0))    ;; what it uses
    (i32.const 0))
  ;; The verdicts are zero before the call, and zero means pass.
  (func (export "switchpath_process")))
