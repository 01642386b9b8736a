;; A packet function that computes for a number of turns on each packet, by hand: a guest of real cost, to measure what others notice of it.
;; crates/extension/src/function_block.rs has the layout of the block, which is at 1024.
(module
  (memory (export "memory") 1)
  (data (i32.const 8) "summary Computes for a number of turns on each packet.\0aoption turns count 10000 1 100000 The turns.\0a\00")
  (global $sum (mut i32) (i32.const 1))
  (func (export "switchpath_function") (result i32) (i32.const 1))
  (func (export "switchpath_describe") (result i32) (i32.const 8))
  (func (export "switchpath_block") (result i32) (i32.const 1024))
  (func (export "switchpath_start") (result i32)
    (i32.store (i32.const 1040) (i32.const 0))    ;; bytes of each packet
    (i32.store (i32.const 1044) (i32.const 4096)) ;; the area for them
    (i32.store (i32.const 1048) (i32.const 1))    ;; the most packets of a call: the time of a call is limited
    (i32.store (i32.const 1052) (i32.const 0))    ;; what it uses
    (i32.const 0))
  ;; The turns depend on each other, so the compiler keeps them. The verdicts are zero before the call, and zero means pass.
  (func (export "switchpath_process") (local $turns i32) (local $sum i32)
    (local.set $turns (i32.mul (i32.load (i32.const 1032)) (i32.load (i32.const 1088)))) ;; packets times the option
    (local.set $sum (global.get $sum))
    (block $end
      (loop $turn
        (br_if $end (i32.eqz (local.get $turns)))
        (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 1664525)) (i32.const 1013904223)))
        (local.set $turns (i32.sub (local.get $turns) (i32.const 1)))
        (br $turn)))
    (global.set $sum (local.get $sum))))
