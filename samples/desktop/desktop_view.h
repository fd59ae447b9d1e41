/* desktop_view.h - the window's picture: header, conversation, progress, input, status, and which of them is where. */
#ifndef DESKTOP_VIEW_H
#define DESKTOP_VIEW_H

#include "desktop_box.h"
#include "desktop_bubbles.h"
#include "desktop_model.h"

typedef enum view_part {
    VIEW_NOTHING,
    VIEW_TALK,
    VIEW_BAR,
    VIEW_BOX,
    VIEW_ACT,   /* the button that sends, stops or loads, as things stand */
    VIEW_AGAIN, /* another reply */
    VIEW_FRESH, /* another conversation */
    VIEW_PARTS
} view_part;

typedef enum view_act { ACT_SEND, ACT_STOP, ACT_LOAD } view_act;

typedef struct view {
    paint *paint; /* borrowed, as are those whose picture it is */
    talk *talk;
    edit *edit;
    const model *model;
    bubbles bubbles;
    box box;
    SDL_Rect places[VIEW_PARTS];
    view_part hover;
    bool has_focus, blink; /* blink: the cursor is in its visible half */
} view;

/* Draws all; SDL_RenderPresent shows it. */
void view_draw(view *v);
view_part view_part_at(const view *v, int x, int y);

/* What the big button does now, and whether the others can be used. */
view_act view_act_now(const view *v);
bool view_can_use(const view *v, view_part part);

#endif
