/* SPDX-License-Identifier: Apache-2.0
 * The pages, byte for byte, in the binary's read-only data.
 */
#define ASSET(name, file)                                                                          \
    .globl web_##name##_start;                                                                     \
    .globl web_##name##_end;                                                                       \
    web_##name##_start: .incbin file;                                                              \
    web_##name##_end: .byte 0

    .section .rodata
    ASSET(index, "index.html")
    ASSET(script, "chat.js")
    ASSET(style, "chat.css")
    ASSET(icon, "icon.svg")

    .section .note.GNU-stack, "", %progbits
