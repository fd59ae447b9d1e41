/* chat_interrupt.c - see chat_interrupt.h. A signal handler takes no argument, hence two statics;
 * it does only what a handler may: set a flag, and vklm_session_cancel. */
#define _POSIX_C_SOURCE 200809L
#include "chat_interrupt.h"

#include <stddef.h>

static volatile sig_atomic_t interrupted;
static vklm_session *volatile watched;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
    vklm_session *session = watched;
    if (session) vklm_session_cancel(session);
}

static void handle_interrupts(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    /* One use only: the second Ctrl-C finds the default again. */
    if (handler == on_interrupt) action.sa_flags |= (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void interrupt_begin(vklm_session *session)
{
    interrupted = 0;
    watched = session;
    handle_interrupts(on_interrupt);
}

bool interrupt_end(void)
{
    handle_interrupts(SIG_DFL);
    watched = NULL;
    return interrupted != 0;
}

const volatile sig_atomic_t *interrupt_flag(void)
{
    return &interrupted;
}
