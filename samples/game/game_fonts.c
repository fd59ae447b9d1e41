/* game_fonts.c - see game_fonts.h. */
#include "game_fonts.h"

#include <stdio.h>

static const char *find(const char *const *paths)
{
    for (; *paths; paths++) {
        FILE *file = fopen(*paths, "rb");
        if (!file) continue;
        fclose(file);
        return *paths;
    }
    return NULL;
}

const char *fonts_find_latin(void)
{
    static const char *const paths[] = {
        "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", /* Debian: fonts-dejavu-core */
        "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
        "/usr/share/fonts/TTF/DejaVuSans.ttf",
        "/usr/share/fonts/dejavu/DejaVuSans.ttf",
        "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf",
        "/usr/share/fonts/noto/NotoSans-Regular.ttf",
        "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
        "/System/Library/Fonts/Helvetica.ttc",
        "C:/Windows/Fonts/segoeui.ttf",
        "C:/Windows/Fonts/arial.ttf",
        NULL,
    };
    return find(paths);
}

const char *fonts_find_chinese(void)
{
    static const char *const paths[] = {
        "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc", /* Debian: fonts-wqy-microhei */
        "/usr/share/fonts/wqy-microhei/wqy-microhei.ttc",
        "/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc",
        "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
        "/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
        "/usr/share/fonts/google-noto-sans-cjk-fonts/NotoSansCJK-Regular.ttc",
        "/System/Library/Fonts/PingFang.ttc",
        "/System/Library/Fonts/STHeiti Light.ttc",
        "C:/Windows/Fonts/msyh.ttc",
        "C:/Windows/Fonts/simsun.ttc",
        NULL,
    };
    return find(paths);
}
