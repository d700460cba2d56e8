/* SPDX-License-Identifier: Apache-2.0
 * The files of twin/ that have names, byte for byte, in the binary's read-only data.
 */
    .section .rodata
    .globl twin_h800_start
    .globl twin_h800_end
twin_h800_start: .incbin "hardware/h800.yaml"
twin_h800_end: .byte 0
    .globl twin_h100_start
    .globl twin_h100_end
twin_h100_start: .incbin "hardware/h100.yaml"
twin_h100_end: .byte 0
    .globl twin_h200_start
    .globl twin_h200_end
twin_h200_start: .incbin "hardware/h200.yaml"
twin_h200_end: .byte 0
    .globl twin_deepseek_v3_start
    .globl twin_deepseek_v3_end
twin_deepseek_v3_start: .incbin "models/deepseek-v3.yaml"
twin_deepseek_v3_end: .byte 0
    .globl twin_tiny_r1_start
    .globl twin_tiny_r1_end
twin_tiny_r1_start: .incbin "models/tiny-r1.yaml"
twin_tiny_r1_end: .byte 0
    .globl twin_deepseek_2025_02_start
    .globl twin_deepseek_2025_02_end
twin_deepseek_2025_02_start: .incbin "prices/deepseek-2025-02.yaml"
twin_deepseek_2025_02_end: .byte 0
    .globl twin_small_start
    .globl twin_small_end
twin_small_start: .incbin "scenarios/small.yaml"
twin_small_end: .byte 0
    .globl twin_one_node_start
    .globl twin_one_node_end
twin_one_node_start: .incbin "scenarios/one-node.yaml"
twin_one_node_end: .byte 0
    .globl twin_ep144_start
    .globl twin_ep144_end
twin_ep144_start: .incbin "scenarios/ep144.yaml"
twin_ep144_end: .byte 0
    .globl twin_deepseek_day_start
    .globl twin_deepseek_day_end
twin_deepseek_day_start: .incbin "scenarios/deepseek-day.yaml"
twin_deepseek_day_end: .byte 0

    .section .note.GNU-stack, "", %progbits
