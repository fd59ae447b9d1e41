/* hello.c - the smallest whole program: one question, the answer streamed as it is made.
 *
 *     vklm-hello MODEL.gguf ["question"]
 *
 * Three objects in a row (device > model > session), a conversation of one message, and the events
 * of its reply, of at most 300 tokens. Every call that can fail says in `error` what is wrong and what helps.
 */
#include <stdio.h>

#include "vklm/vklm.h"

/* Writes the reply to stdout until the model ends its turn. */
static vklm_status print_reply(vklm_session *session, vklm_error *error)
{
    vklm_event event = {.kind = VKLM_EVENT_NONE};
    while (event.kind != VKLM_EVENT_DONE) {
        if (vklm_session_wait_event(session, error, &event) != VKLM_OK || event.reason == VKLM_DONE_ERROR)
            return error->status;
        fwrite(event.text, 1, event.text_len, stdout);
        fflush(stdout);
    }
    putchar('\n');
    return VKLM_OK;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: vklm-hello MODEL.gguf [\"question\"]\n");
        return 2;
    }
    const vklm_message ask = {"user", argc > 2 ? argv[2] : "Why is the sky blue?"};
    const vklm_model_params load = {.struct_size = sizeof load, .path = argv[1]};
    const vklm_generate_params answer = {.struct_size = sizeof answer, .max_tokens = 300};
    vklm_device *device = NULL;
    vklm_model *model = NULL;
    vklm_session *session = NULL;
    vklm_error error = {.status = VKLM_OK};

    vklm_status status = vklm_device_create(NULL, &error, &device);
    if (status == VKLM_OK) status = vklm_model_load(device, &load, &error, &model);
    if (status == VKLM_OK) status = vklm_session_create(model, NULL, &error, &session);
    if (status == VKLM_OK) status = vklm_session_set_chat(session, &ask, 1, &error, NULL);
    if (status == VKLM_OK) status = vklm_session_generate(session, &answer, &error);
    if (status == VKLM_OK) status = print_reply(session, &error);
    if (status != VKLM_OK) fprintf(stderr, "vklm-hello: %s\n", error.text);

    vklm_session_destroy(&session);
    vklm_model_destroy(&model);
    vklm_device_destroy(&device);
    return status == VKLM_OK ? 0 : 1;
}
