/* SPDX-License-Identifier: Apache-2.0
 * The templates of models/templates, byte for byte, in the binary's read-only data.
 */
#define TEMPLATE(name, file)                                                                       \
    .globl builtin_##name##_start;                                                                 \
    .globl builtin_##name##_end;                                                                   \
    builtin_##name##_start: .incbin file;                                                          \
    builtin_##name##_end: .byte 0

    .section .rodata
    TEMPLATE(v3, "deepseek-v3.jinja")
    TEMPLATE(v3_0324, "deepseek-v3-0324.jinja")
    TEMPLATE(r1, "deepseek-r1.jinja")
    TEMPLATE(r1_0528, "deepseek-r1-0528.jinja")
    TEMPLATE(v31, "deepseek-v3.1.jinja")
    TEMPLATE(v32, "deepseek-v3.2.jinja")
    TEMPLATE(kimi_k2, "kimi-k2.jinja")
    TEMPLATE(hermes, "hermes.jinja")

    .section .note.GNU-stack, "", %progbits
