/* chat.c - a conversation as ids, after the format of the file's chat family.
 *
 * The whole conversation is written into one text and encoded at once, so that what lies between
 * two control tokens is tokenised as one fragment, whether it came from the format or from a
 * message. Spans that came from messages are marked as quoted: in them no control token is
 * recognised.
 */
#include <string.h>

#include "text/chat_families.h"
#include "text/encode.h"

const char *const vki_roles[VKI_ROLES] = {"system", "user", "assistant"};

typedef struct chat_writer {
    const vklm_vocab *vocab;
    vklm_error *error;
    const vklm_message *messages;
    size_t n_messages;
    char *text; /* owned */
    size_t len, capacity;
    vki_span *quoted; /* owned */
    size_t n_quoted, quoted_capacity;
} chat_writer;

static vklm_status write_bytes(chat_writer *writer, const char *bytes, size_t len)
{
    TRY(vki_grow(&writer->vocab->host, writer->len + len, 1, writer->error, &writer->text, &writer->capacity));
    if (len) memcpy(writer->text + writer->len, bytes, len);
    writer->len += len;
    return VKLM_OK;
}

/* The family's own text. */
static vklm_status write_format(chat_writer *writer, const char *format)
{
    const vklm_vocab *vocab = writer->vocab;
    for (; format && *format; format++) {
        vki_string piece = {format, 1};
        if (*format == VKI_CHAT_BOS[0] || *format == VKI_CHAT_EOS[0]) {
            const vklm_token id = *format == VKI_CHAT_BOS[0] ? vocab->bos : vocab->eos;
            piece = id >= 0 ? vocab->texts[id] : (vki_string){0};
        }
        TRY(write_bytes(writer, piece.text, piece.len));
    }
    return VKLM_OK;
}

static vklm_status write_quoted(chat_writer *writer, vki_string content)
{
    if (content.len == 0) return VKLM_OK;
    TRY(vki_grow(&writer->vocab->host, writer->n_quoted + 1, sizeof *writer->quoted, writer->error,
                 &writer->quoted, &writer->quoted_capacity));
    writer->quoted[writer->n_quoted++] = (vki_span){writer->len, writer->len + content.len};
    return write_bytes(writer, content.text, content.len);
}

static bool is_role(const vklm_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

static void trim_start(vki_string *text, const char *blanks)
{
    while (text->len && strchr(blanks, text->text[0]) && text->text[0]) {
        text->text++;
        text->len--;
    }
}

/* What a family shows of a message. */
static vki_string content_of(const chat_writer *writer, const vklm_message *message)
{
    static const char thought_end[] = "</think>", blanks[] = " \t\n\v\f\r";
    const unsigned flags = writer->vocab->family->flags;
    vki_string content = {message->content, strlen(message->content)};
    if (flags & VKI_CHAT_DROP_THOUGHTS && is_role(message, "assistant")) {
        const char *end;
        const size_t len = content.len;
        while ((end = strstr(content.text, thought_end))) content.text = end + strlen(thought_end);
        content.len = strlen(content.text);
        if (flags & VKI_CHAT_DROP_NEWLINES && content.len < len) trim_start(&content, "\n");
    }
    const unsigned trims = is_role(message, "assistant") ? VKI_CHAT_TRIM_ASSISTANT
                           : is_role(message, "user")    ? VKI_CHAT_TRIM_USER
                                                         : VKI_CHAT_TRIM_SYSTEM;
    if (flags & trims) {
        trim_start(&content, blanks);
        while (content.len && strchr(blanks, content.text[content.len - 1])) content.len--;
    }
    return content;
}

/* The next message behind `at` with this role; n_messages where there is none. */
static size_t find_role(const chat_writer *writer, size_t at, const char *role)
{
    while (at < writer->n_messages && !is_role(&writer->messages[at], role)) at++;
    return at;
}

/* Whether the message is a system message that waits for a user turn to go into. */
static bool is_held(const chat_writer *writer, size_t at)
{
    const unsigned in_user = VKI_CHAT_SYSTEM_FIRST | VKI_CHAT_SYSTEM_LAST;
    return writer->vocab->family->flags & in_user && is_role(&writer->messages[at], "system") &&
           find_role(writer, at, "user") < writer->n_messages;
}

/* The system messages that user turn `at` opens with: those since the turn before, or, in families
 * that open the last user turn, all. */
static vklm_status write_held(chat_writer *writer, size_t at)
{
    const vki_chat_family *family = writer->vocab->family;
    const bool last = family->flags & VKI_CHAT_SYSTEM_LAST;
    if (!is_role(&writer->messages[at], "user")) return VKLM_OK;
    if (last && find_role(writer, at + 1, "user") < writer->n_messages) return VKLM_OK;
    size_t from = last ? 0 : at;
    while (!last && from && !is_role(&writer->messages[from - 1], "user")) from--;
    for (; from < at; from++) {
        if (!is_held(writer, from)) continue;
        TRY(write_format(writer, family->system.before));
        TRY(write_quoted(writer, content_of(writer, &writer->messages[from])));
        TRY(write_format(writer, family->system.after));
    }
    return VKLM_OK;
}

static const vki_chat_turn *turn_of(const chat_writer *writer, const vklm_message *message)
{
    const vki_chat_family *family = writer->vocab->family;
    if (is_role(message, "assistant")) return &family->assistant;
    /* A held message that no user turn follows is a user turn itself. */
    const unsigned in_user = VKI_CHAT_SYSTEM_FIRST | VKI_CHAT_SYSTEM_LAST;
    return is_role(message, "system") && !(family->flags & in_user) ? &family->system
                                                                    : &family->user;
}

static vklm_status write_turns(chat_writer *writer)
{
    const vki_chat_family *family = writer->vocab->family;
    const vki_chat_turn *open = NULL; /* the turn that has no end yet */
    for (size_t i = 0; i < writer->n_messages; i++) {
        if (is_held(writer, i)) continue;
        const vki_chat_turn *turn = turn_of(writer, &writer->messages[i]);
        if (open == turn && family->flags & VKI_CHAT_MERGE_TURNS) {
            TRY(write_format(writer, "\n\n"));
        } else {
            TRY(write_format(writer, open ? open->after : NULL));
            TRY(write_format(writer, turn->before));
        }
        open = turn;
        TRY(write_held(writer, i));
        TRY(write_quoted(writer, content_of(writer, &writer->messages[i])));
    }
    return write_format(writer, open ? open->after : NULL);
}

static vklm_status write_conversation(chat_writer *writer)
{
    const vklm_vocab *vocab = writer->vocab;
    const vki_chat_family *family = vocab->family;
    TRY(write_format(writer, family->begin));
    if (family->flags & VKI_CHAT_BOS_IF_NAMED && vocab->chat_names_bos)
        TRY(write_format(writer, VKI_CHAT_BOS));
    if (family->default_system &&
        (writer->n_messages == 0 || !is_role(writer->messages, "system"))) {
        TRY(write_format(writer, family->system.before));
        TRY(write_format(writer, family->default_system));
        TRY(write_format(writer, family->system.after));
    }
    TRY(write_turns(writer));
    return write_format(writer, family->reply);
}

static vklm_status check_messages(const vklm_message *messages, size_t n, vklm_error *error)
{
    for (size_t i = 0; i < n; i++) {
        if (!messages[i].role || !messages[i].content)
            return vki_fail(error, VKLM_INVALID_ARGUMENT, "message %zu has no role or no content", i);
        bool known = false;
        for (size_t k = 0; k < VKI_ROLES; k++)
            known |= is_role(&messages[i], vki_roles[k]);
        if (!known)
            return vki_fail(error, VKLM_INVALID_ARGUMENT,
                            "message %zu has role '%.32s'; use system, user or assistant", i,
                            messages[i].role);
    }
    return VKLM_OK;
}

/* Whether the vocabulary wants BOS in front of a text that does not begin with it already. */
static bool lacks_bos(const chat_writer *writer)
{
    const vklm_vocab *vocab = writer->vocab;
    if (vocab->bos < 0 || !vocab->add_bos) return false;
    const vki_string bos = vocab->texts[vocab->bos];
    return writer->len < bos.len || memcmp(writer->text, bos.text, bos.len) != 0 ||
           (writer->n_quoted && writer->quoted[0].begin < bos.len);
}

void vki_chat_detect(vklm_vocab *vocab, vki_string chat_template)
{
    vocab->family = vki_chat_find(chat_template);
    vocab->chat_names_bos = vki_chat_mentions(chat_template, "bos_token");
}

const char *vklm_chat_family(const vklm_vocab *vocab)
{
    return vocab->family ? vocab->family->name : NULL;
}

vklm_status vklm_chat_tokenize(const vklm_vocab *vocab, const vklm_message *messages,
                               size_t n_messages, vklm_error *error, vklm_token *ids,
                               size_t capacity, size_t *n_out)
{
    TRY(vki_text_arguments(vocab, messages, n_messages, error, n_out));
    if (!vocab->family)
        return vki_fail(error, VKLM_UNSUPPORTED,
                        "the file has no chat template of a known family; use vklm_tokenize");
    TRY(check_messages(messages, n_messages, error));
    chat_writer writer = {
        .vocab = vocab, .error = error, .messages = messages, .n_messages = n_messages};
    vki_encoder encoder = {.vocab = vocab, .ids = ids, .capacity = ids ? capacity : 0};
    vklm_status status = write_conversation(&writer);
    if (status == VKLM_OK) {
        if (lacks_bos(&writer)) vki_emit(&encoder, vocab->bos);
        const vki_text text = {writer.text, writer.len, true, writer.quoted, writer.n_quoted};
        status = vki_encode(&encoder, &text, error);
    }
    vki_release(&vocab->host, &writer.text);
    vki_release(&vocab->host, &writer.quoted);
    vki_encoder_free(&encoder);
    TRY(status);
    return vki_encoder_result(&encoder, error, n_out);
}
