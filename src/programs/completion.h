/* SPDX-License-Identifier: Apache-2.0
 * Shell completion of fathom's commands, their first arguments and their options.
 */
#pragma once

/* Prints the completion script of a shell, "bash", "zsh" or "fish", to stdout. */
void completion_print(const char *shell);
