/* chat_interrupt.h - Ctrl-C while the program works: the first asks the work to stop, the next,
 * where the work does not listen, ends the program as the system does by default (exit code 130, on Windows 0xc000013a).
 */
#ifndef CHAT_INTERRUPT_H
#define CHAT_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

#include "vklm/vklm.h"

/* From now on the first Ctrl-C raises the flag and cancels the session's work (NULL: none). */
void interrupt_begin(vklm_session *session);

/* Back to the system's handling. Returns whether Ctrl-C came. */
bool interrupt_end(void);

/* Nonzero once Ctrl-C came. */
const volatile sig_atomic_t *interrupt_flag(void);

#endif
