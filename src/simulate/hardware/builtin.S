/* SPDX-License-Identifier: Apache-2.0
 * Hardware and model files of twin/, byte for byte, in the binary's read-only data.
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

    .section .note.GNU-stack, "", %progbits
