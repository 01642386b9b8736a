;; A code option of slices that looks at no packet, by hand: the smallest one, to measure what a guest costs. All keys are zero.
;; crates/extension/src/slice_block.rs has the layout of the block, which is at 1024. The area for bytes of packets is at 8192.
(module
  (memory (export "memory") 1)
  (data (i32.const 8) "summary Looks at no packet.\0a\00")
  (func (export "switchpath_slice") (result i32) (i32.const 1))
  (func (export "switchpath_describe") (result i32) (i32.const 8))
  (func (export "switchpath_block") (result i32) (i32.const 1024))
  (func (export "switchpath_start") (result i32)
    (i32.store (i32.const 1040) (i32.const 0))    ;; bytes of each packet
    (i32.store (i32.const 1044) (i32.const 8192)) ;; the area for them
    (i32.store (i32.const 1048) (i32.const 64))   ;; the most packets of a call
    (i32.store (i32.const 1052) (i32.const 2))    ;; packets are sent as they are, without a call of `switchpath_format`
    (i32.const 0))
  ;; Verdicts and keys are zero before the call, and zero means to go on.
  (func (export "switchpath_parse"))
  (func (export "switchpath_format")))
