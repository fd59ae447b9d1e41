/* game_script.h - who the two are, and what they begin with. */
#ifndef GAME_SCRIPT_H
#define GAME_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OWL, FOX, SPEAKERS };

typedef struct persona {
    const char *name;
    uint32_t rgb; /* of the name in the bubble */
} persona;

typedef struct opening {
    int speaker;
    bool chinese;
    const char *text;
} opening;

extern const persona script_personas[SPEAKERS];
extern const opening script_openings[];
extern const size_t script_n_openings;

/* What the model is told of itself, by language. */
const char *script_instruction(int speaker, bool chinese);

#endif
