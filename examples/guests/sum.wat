;; An instruction of ephemeral state that adds up the values of packets, in WebAssembly text: the whole interface by hand.
;; crates/extension/src/instruction.rs has the layout of the block, which is at 1024 here.
(module
  (memory (export "memory") 1)
  (data (i32.const 8)
    "summary Adds up what packets bring, and goes on with the sum, in text.\n"
    "tags 1\n"
    "creates 1\00")

  (func (export "switchpath_instruction") (result i32) (i32.const 1))
  (func (export "switchpath_describe") (result i32) (i32.const 8))
  (func (export "switchpath_block") (result i32) (i32.const 1024))

  ;; An absent entry counts as zero. The sum is stored under the tag and in the packet.
  (func (export "switchpath_execute") (result i32)
    (i64.store (i32.const 1064) (i64.add (i64.load (i32.const 1064)) (i64.load (i32.const 1040))))
    (i64.store (i32.const 1040) (i64.load (i32.const 1064)))
    (i32.store (i32.const 1056) (i32.const 1))
    (i32.const 0)))
