/* desktop_edit.h - text that is being typed: cursor, selection, and what an input method composes.
 *
 * Knows neither keys nor windows. Offsets are in bytes and always between two characters. What is between anchor and
 * cursor is selected. Inserted text loses its control characters; line ends become newlines and tabs blanks.
 */
#ifndef DESKTOP_EDIT_H
#define DESKTOP_EDIT_H

#include "sample_setup.h"

typedef struct edit {
    sample_text text; /* owned, terminated once something was inserted */
    size_t cursor, anchor;
    char composed[256]; /* by the input method, shown at the cursor and not yet part of the text; "": nothing */
} edit;

typedef enum edit_place {
    EDIT_LEFT,
    EDIT_RIGHT,
    EDIT_WORD_LEFT,
    EDIT_WORD_RIGHT,
    EDIT_BEGIN, /* of the whole text */
    EDIT_END,
} edit_place;

void edit_free(edit *e);
void edit_clear(edit *e);

/* Replaces the selection. */
void edit_insert(edit *e, const char *bytes, size_t len);

/* Removes the selection, or else what is between the cursor and the place. */
void edit_erase(edit *e, edit_place to);

/* Moves the cursor; with `select` the anchor stays. Without it a selection is left at its near end. */
void edit_move(edit *e, edit_place to, bool select);
void edit_move_to(edit *e, size_t offset, bool select);

void edit_select_all(edit *e);
void edit_select_word(edit *e, size_t offset);

/* The selected bytes, first and end; they are equal where nothing is selected. */
void edit_selection(const edit *e, size_t *from, size_t *to);

/* A copy of the selected text, from malloc; NULL where nothing is selected. */
char *edit_copy(const edit *e);

/* NULL or "": none. Cut to whole characters where it is longer than there is room for. */
void edit_compose(edit *e, const char *text);

#endif
