/* chat_interrupt.c - see chat_interrupt.h. A handler takes no argument, hence two statics; it does only what a
 * signal handler may, and on Windows another thread: set a flag, and vklm_session_cancel. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "chat_interrupt.h"

#include <stddef.h>
#ifdef _WIN32
#include <windows.h>
#endif

static volatile sig_atomic_t interrupted;
static vklm_session *volatile watched;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
    vklm_session *session = watched;
    if (session) vklm_session_cancel(session);
}

#ifdef _WIN32
/* What it leaves alone goes to the system's own handler, which ends the program: the second Ctrl-C, and
 * Ctrl-Break. */
static BOOL WINAPI on_console_event(DWORD event)
{
    if (event != CTRL_C_EVENT || interrupted) return FALSE;
    on_interrupt(SIGINT);
    return TRUE;
}

static void handle_interrupts(bool on)
{
    SetConsoleCtrlHandler(on_console_event, on);
}
#else
static void handle_interrupts(bool on)
{
    struct sigaction action = {.sa_handler = on ? on_interrupt : SIG_DFL, .sa_flags = SA_RESTART};
    /* One use only: the second Ctrl-C finds the default again. */
    if (on) action.sa_flags |= (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}
#endif

void interrupt_begin(vklm_session *session)
{
    interrupted = 0;
    watched = session;
    handle_interrupts(true);
}

bool interrupt_end(void)
{
    handle_interrupts(false);
    watched = NULL;
    return interrupted != 0;
}

const volatile sig_atomic_t *interrupt_flag(void)
{
    return &interrupted;
}
