/* desktop_colours.h - the colours of the window. */
#ifndef DESKTOP_COLOURS_H
#define DESKTOP_COLOURS_H

#include <SDL.h>

#define COLOUR_GROUND ((SDL_Color){243, 244, 247, 255})
#define COLOUR_PAPER ((SDL_Color){255, 255, 255, 255})
#define COLOUR_LINE ((SDL_Color){214, 217, 224, 255})
#define COLOUR_TEXT ((SDL_Color){31, 35, 45, 255})
#define COLOUR_QUIET ((SDL_Color){98, 105, 120, 255})
#define COLOUR_PALE ((SDL_Color){160, 166, 178, 255})
#define COLOUR_ACCENT ((SDL_Color){58, 92, 204, 255})
#define COLOUR_ACCENT_LIT ((SDL_Color){78, 112, 224, 255})
#define COLOUR_ON_ACCENT ((SDL_Color){255, 255, 255, 255})
#define COLOUR_STOP ((SDL_Color){190, 62, 62, 255})
#define COLOUR_STOP_LIT ((SDL_Color){210, 82, 82, 255})
#define COLOUR_LIT ((SDL_Color){232, 235, 242, 255})
#define COLOUR_NOTICE ((SDL_Color){255, 243, 209, 255})
#define COLOUR_ON_NOTICE ((SDL_Color){96, 70, 10, 255})
#define COLOUR_SELECTION ((SDL_Color){90, 140, 255, 90})

#endif
