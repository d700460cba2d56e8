/* SPDX-License-Identifier: Apache-2.0
 * The pages, byte for byte, in the binary's read-only data.
 */
#define ASSET(symbol, path, file, type)                                                            \
    .globl web_##symbol##_start;                                                                   \
    .globl web_##symbol##_end;                                                                     \
    web_##symbol##_start: .incbin file;                                                            \
    web_##symbol##_end: .byte 0;

    .section .rodata
#include "web_assets.inc"

    .section .note.GNU-stack, "", %progbits
