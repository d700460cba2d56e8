/* SPDX-License-Identifier: Apache-2.0
 * The schemas of answers, byte for byte, in the binary's read-only data.
 */
    .section .rodata
    .globl openapi_schemas_start
    .globl openapi_schemas_end
openapi_schemas_start: .incbin "openapi_schemas.json"
openapi_schemas_end: .byte 0

    .section .note.GNU-stack, "", %progbits
