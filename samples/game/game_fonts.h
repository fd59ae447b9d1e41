/* game_fonts.h - font files in the usual places of Linux, macOS and Windows. NULL: none is there. */
#ifndef GAME_FONTS_H
#define GAME_FONTS_H

const char *fonts_find_latin(void);
const char *fonts_find_chinese(void);

#endif
