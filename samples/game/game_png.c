/* game_png.c - see game_png.h. */
#include "game_png.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

#include "game_gpu.h"
#include "sample_files.h"

static bool write_rows(FILE *file, uint32_t width, uint32_t height, const uint8_t *rgba)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info || setjmp(png_jmpbuf(png))) { /* libpng comes back here from where it fails, and has said why */
        png_destroy_write_struct(&png, NULL);
        return false;
    }
    png_init_io(png, file);
    png_set_IHDR(png, info, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    png_set_filler(png, 0, PNG_FILLER_AFTER);
    for (uint32_t y = 0; y < height; y++) png_write_row(png, rgba + (size_t)y * width * 4);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return true;
}

bool png_save(const char *path, uint32_t width, uint32_t height, const uint8_t *rgba)
{
    FILE *file = file_open(path, "wb");
    if (!file) return gpu_fail("%s cannot be written: %s", path, strerror(errno));
    bool good = write_rows(file, width, height, rgba);
    good = fclose(file) == 0 && good;
    return good || gpu_fail("%s could not be written whole", path);
}
