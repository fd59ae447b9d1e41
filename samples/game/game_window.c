/* game_window.c - see game_window.h. */
#include "game_window.h"

#include <math.h>

#include <GLFW/glfw3.h>

static void on_error(int code, const char *text)
{
    (void)code;
    gpu_fail("window: %s", text);
}

static void on_key(GLFWwindow *window, int key, int scancode, int action, int mods)
{
    (void)scancode;
    (void)mods;
    game *game = glfwGetWindowUserPointer(window);
    double *budget = &game->panel.budget_ms;
    if (action == GLFW_RELEASE) return;
    if (key == GLFW_KEY_ESCAPE) glfwSetWindowShouldClose(window, GLFW_TRUE);
    if (key == GLFW_KEY_LEFT) *budget = fmax(*budget - 0.5, 0);
    if (key == GLFW_KEY_RIGHT) *budget = fmin(*budget + 0.5, PANEL_MOST_MS);
    if (key == GLFW_KEY_SPACE && action == GLFW_PRESS) {
        const double resumed = game->resume_ms > 0 ? game->resume_ms : 2;
        game->resume_ms = *budget;
        *budget = *budget > 0 ? 0 : resumed;
    }
}

bool window_open(game *game)
{
    glfwSetErrorCallback(on_error);
    if (!glfwInit()) return gpu_fail("no window to be had here; --headless goes without one");
    if (!glfwVulkanSupported())
        return gpu_fail("the window system has no Vulkan here; on Debian the loader is package libvulkan1");
    glfwWindowHint(GLFW_CLIENT_API, GLFW_NO_API);
    const int width = (int)game->options.width, height = (int)game->options.height;
    game->window = glfwCreateWindow(width, height, "vklm-game: two friends by a lake", NULL, NULL);
    if (!game->window) return gpu_fail("no window of %d by %d to be had", width, height);
    glfwSetWindowUserPointer(game->window, game);
    glfwSetKeyCallback(game->window, on_key);
    return true;
}

void window_close(game *game)
{
    if (game->window) glfwDestroyWindow(game->window);
    game->window = NULL;
    if (!game->options.headless) glfwTerminate();
}

void window_input(game *game)
{
    glfwPollEvents();
    int window_width = 0, window_height = 0;
    double x = 0, y = 0;
    glfwGetWindowSize(game->window, &window_width, &window_height);
    glfwGetCursorPos(game->window, &x, &y);
    if (window_width <= 0 || window_height <= 0) return;
    const double across = (double)game->target.size.width / window_width;
    const double down = (double)game->target.size.height / window_height;
    panel_mouse(&game->panel, (float)(x * across), (float)(y * down),
                glfwGetMouseButton(game->window, GLFW_MOUSE_BUTTON_LEFT) == GLFW_PRESS);
}
