/* game_talk.h - the conversation of the two: each has sessions of its own on the one model, one a language, and what
 * one says is the other's question. An exchange begins with a line of the script and ends after some replies.
 *
 * talk_update looks at what the sessions have to tell and never waits. Where there is no model, the two read the
 * script. A model without a chat format is given the exchange as a play, and writes the next line of it.
 */
#ifndef GAME_TALK_H
#define GAME_TALK_H

#include "game_script.h"
#include "sample_setup.h"

enum { TALK_MOST_LINES = 16 };

typedef struct talk_options {
    double pause;       /* seconds between one line and the next; 0 also shows opening lines at once */
    int replies;        /* of an exchange, 1 to TALK_MOST_LINES - 1 */
    uint32_t max_tokens; /* of a reply */
    uint32_t chunk;     /* prompt tokens in one pass: small enough that a piece of the pass fits a budget */
    uint64_t seed;
    bool english, chinese; /* opening lines in these; at least one */
    bool verbose;          /* lines go to stderr too */
} talk_options;

typedef enum talk_phase {
    TALK_WAKING,  /* the model digests who the two are */
    TALK_OPENING, /* the opening line appears letter by letter */
    TALK_REPLY,   /* the model is at work, or digests what was said */
    TALK_PAUSE,   /* the line stays for a while */
} talk_phase;

typedef struct talk_said {
    int speaker;
    char *text; /* owned */
} talk_said;

typedef struct talk {
    talk_options options;
    vklm_model *model; /* borrowed; NULL: none */
    vklm_session *sessions[SPEAKERS][2]; /* English, Chinese */
    int n_sessions, n_asleep; /* all, and those that still digest their instruction */
    bool play;         /* no chat format */
    bool line_over;    /* of the play: the model has begun the next one */
    talk_phase phase;
    int speaker;       /* who speaks, or shall */
    size_t next_opening;
    const opening *opening;
    talk_said lines[TALK_MOST_LINES]; /* of the exchange, whole ones */
    size_t n_lines;
    sample_text bubbles[SPEAKERS];    /* what each said last, as far as it is there */
    double phase_time;                /* seconds */
    float mouths[SPEAKERS];           /* 0 to 1 */
    float digested;                   /* share of the prompt, before the first token */
    uint64_t n_tokens, n_replies;
    bool failed;                      /* the last reply: the exchange is over */
} talk;

/* Zeroes the talk and begins without a model. */
void talk_begin(talk *talk, const talk_options *options);

/* From the next exchange on, the model replies. False where it cannot, which was said on stderr. */
bool talk_use_model(talk *talk, vklm_model *model);

/* Moves the conversation on by `seconds` of the game's time. */
void talk_update(talk *talk, double seconds);

/* Ends the sessions; before the model's end. */
void talk_end(talk *talk);

#endif
