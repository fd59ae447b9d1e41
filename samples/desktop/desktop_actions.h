/* desktop_actions.h - the program's state, and what its user can do: by keys, mouse, clipboard and input method. */
#ifndef DESKTOP_ACTIONS_H
#define DESKTOP_ACTIONS_H

#include "desktop_model.h"
#include "desktop_report.h"
#include "desktop_view.h"

typedef struct desktop {
    SDL_Window *window;
    sample_setup setup;
    paint paint;
    talk talk;
    edit edit;
    model model;
    view view;
    report report;
    double density, zoom;  /* pixels for a unit of the window's size; the user's choice */
    view_part dragged;     /* where the mouse button went down */
    uint32_t input_ms;     /* SDL_GetTicks() at the last event of the user */
    bool send_when_ready;  /* Enter was pressed while the model was loading */
    bool asked, dirty, quit;
    char *dropped_path; /* owned, from SDL: a model that was dropped on the window and is to be loaded */
    char *loaded_path;  /* owned, from SDL: the one dropped before, which setup names */
} desktop;

/* Takes one event; sets dirty where the picture changes. */
void desktop_take_event(desktop *d, const SDL_Event *event);

/* Sends what is typed, now or as soon as the model is loaded. */
void desktop_send(desktop *d);

/* Loads the model that was dropped on the window; not while another is loaded. */
void desktop_load_dropped(desktop *d);

/* Opens fonts for the window's density and the zoom; false, with SDL_GetError, where that is not possible. */
bool desktop_set_scale(desktop *d);

#endif
