/* desktop_picture.c - see desktop_picture.h. */
#include "desktop_picture.h"

#include <png.h>
#include <string.h>

static bool write_png(const SDL_Surface *surface, const char *path)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)surface->w,
                       .height = (png_uint_32)surface->h,
                       .format = PNG_FORMAT_RGB};
    const bool good = png_image_write_to_file(&image, path, 0, surface->pixels, surface->pitch, NULL) != 0;
    if (!good) SDL_SetError("%s cannot be written: %s", path, image.message);
    png_image_free(&image);
    return good;
}

bool picture_write(SDL_Renderer *renderer, const char *path)
{
    int width = 0, height = 0;
    const char *ending = strrchr(path, '.');
    if (SDL_GetRendererOutputSize(renderer, &width, &height) != 0) return false;
    SDL_Surface *surface = SDL_CreateRGBSurfaceWithFormat(0, width, height, 24, SDL_PIXELFORMAT_RGB24);
    if (!surface) return false;
    bool good = SDL_RenderReadPixels(renderer, NULL, SDL_PIXELFORMAT_RGB24, surface->pixels, surface->pitch) == 0;
    if (good) good = ending && SDL_strcasecmp(ending, ".png") == 0 ? write_png(surface, path)
                                                                  : SDL_SaveBMP(surface, path) == 0;
    SDL_FreeSurface(surface);
    return good;
}
