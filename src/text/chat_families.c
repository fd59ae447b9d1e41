/* chat_families.c - chat formats as data: what a template of each family contains, what it renders.
 *
 * A file's template is a Jinja program; instead of running it, its own distinctive text tells which
 * of the known formats it is. The first row that fits wins, so narrow rows stand before wide ones.
 * A row must not claim a template that renders something else: one with an unknown default system
 * message, say, is no plain ChatML. Where a template writes today's date, the rows write the date
 * that Meta's templates fall back on: a prompt should not change from day to day.
 *
 * A system message that the original template would refuse or silently drop goes into a user turn.
 * Mistral's own long default system messages are left out.
 */
#include "text/chat_families.h"

#include <string.h>

/* clang-format off */
#define BOS VKI_CHAT_BOS
#define EOS VKI_CHAT_EOS

#define CHATML_TURN(role) {"<|im_start|>" role "\n", "<|im_end|>\n"}
#define CHATML                                                                                     \
    .system = CHATML_TURN("system"), .user = CHATML_TURN("user"),                                  \
    .assistant = CHATML_TURN("assistant"), .reply = CHATML_REPLY
#define CHATML_REPLY "<|im_start|>assistant\n"
#define CHATML_THINKING                                                                            \
    .system = CHATML_TURN("system"), .user = CHATML_TURN("user"),                                  \
    .assistant = CHATML_TURN("assistant"), .reply = CHATML_REPLY "<think>\n"
#define DROP_THINKING VKI_CHAT_BOS_IF_NAMED | VKI_CHAT_DROP_THOUGHTS | VKI_CHAT_DROP_NEWLINES
#define HELPFUL "You are a helpful assistant"
#define QWEN25 "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."

#define LLAMA3_HEAD(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA3                                                                                     \
    .flags = VKI_CHAT_TRIM, .begin = BOS, .user = {LLAMA3_HEAD("user"), "<|eot_id|>"},             \
    .assistant = {LLAMA3_HEAD("assistant"), "<|eot_id|>"}, .reply = LLAMA3_HEAD("assistant")
#define LLAMA3_DATE "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

#define SYSTEM_IN_USER .system = {"", "\n\n"}
#define FIRST VKI_CHAT_MERGE_TURNS | VKI_CHAT_SYSTEM_FIRST
#define LAST VKI_CHAT_MERGE_TURNS | VKI_CHAT_SYSTEM_LAST
#define TRIM_TURNS VKI_CHAT_TRIM_USER | VKI_CHAT_TRIM_ASSISTANT

#define PHI3_TURN(role) {"<|" role "|>\n", "<|end|>\n"}
#define PHI3                                                                                       \
    .user = PHI3_TURN("user"), .assistant = PHI3_TURN("assistant"), .reply = "<|assistant|>\n"
#define PHI3_FIRST_USER                                                                            \
    "'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'"

#define GLM4                                                                                       \
    .begin = "[gMASK]<sop>", .system = {"<|system|>\n", ""}, .user = {"<|user|>\n", ""},           \
    .assistant = {"<|assistant|>\n", ""}

#define DEEPSEEK_USER "<｜User｜>"
#define DEEPSEEK_ASSISTANT "<｜Assistant｜>"
#define DEEPSEEK(thoughts)                                                                         \
    .flags = VKI_CHAT_DROP_THOUGHTS, .begin = BOS, .system = {"", ""},                             \
    .user = {DEEPSEEK_USER, ""},                                                                   \
    .assistant = {DEEPSEEK_ASSISTANT thoughts, "<｜end▁of▁sentence｜>"}
#define DEEPSEEK_CODER                                                                             \
    "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by "       \
    "Deepseek Company, and you only answer questions related to computer science. For "            \
    "politically sensitive questions, security and privacy issues, and other non-computer "        \
    "science questions, you will refuse to answer\n"

#define GRANITE_TURN(role) {"<|start_of_role|>" role "<|end_of_role|>", "<|end_of_text|>\n"}
#define GRANITE                                                                                    \
    .system = GRANITE_TURN("system"), .user = GRANITE_TURN("user"),                                \
    .assistant = GRANITE_TURN("assistant"), .reply = "<|start_of_role|>assistant<|end_of_role|>"
#define GRANITE_DATED(gap)                                                                         \
    "Knowledge Cutoff Date: April 2024." gap "Today's Date: July 26, 2024." gap                    \
    "You are Granite, developed by IBM. You are a helpful AI assistant."

static const vki_chat_family families[] = {
    {"smollm", {"<|im_start|>", "named SmolLM, trained by Hugging Face"}, {"## Metadata"},
     .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
     CHATML},
    {"qwen2.5", {"<|im_start|>system\n" QWEN25}, .default_system = QWEN25, CHATML},
    {"qwen2", {"<|im_start|>system\n" HELPFUL ".<|im_end|>"}, .flags = VKI_CHAT_BOS_IF_NAMED,
     .default_system = HELPFUL ".", CHATML},
    {"qwen2", {"set system_message = '" HELPFUL ".'", "<|im_start|>system\n' + system_message"},
     .flags = VKI_CHAT_BOS_IF_NAMED, .default_system = HELPFUL ".", CHATML},
    {"qwen1.5", {"<|im_start|>system\n" HELPFUL "<|im_end|>"}, .default_system = HELPFUL, CHATML},
    {"qwen3.5", {"<|im_start|>", "</think>", "'<think>\n'"}, {"<|im_start|>system\nYou are"},
     .flags = VKI_CHAT_TRIM | DROP_THINKING, CHATML_THINKING},
    {"qwen3-thinking", {"<|im_start|>assistant\n<think>\n'", "</think>"},
     {"<|im_start|>system\nYou are"}, .flags = DROP_THINKING, CHATML_THINKING},
    {"qwen3", {"<|im_start|>", "'</think>'"}, {"<|im_start|>system\nYou are", "assistant\n<think>"},
     .flags = DROP_THINKING, CHATML},
    {"phi4", {"<|im_start|>", "<|im_sep|>"}, {"You are Phi"},
     .system = {"<|im_start|>system<|im_sep|>", "<|im_end|>"},
     .user = {"<|im_start|>user<|im_sep|>", "<|im_end|>"},
     .assistant = {"<|im_start|>assistant<|im_sep|>", "<|im_end|>"},
     .reply = "<|im_start|>assistant<|im_sep|>"},
    {"chatml", {"<|im_start|>", "<|im_end|>"},
     {"You are ", "<|im_start|>system\n\n", "think>", "{{ system_message }}"},
     .flags = VKI_CHAT_BOS_IF_NAMED, CHATML},

    {"llama3.1", {"<|start_header_id|>", "Cutting Knowledge Date: December 2023", "Today Date: "},
     .default_system = "", .system = {LLAMA3_HEAD("system") LLAMA3_DATE, "<|eot_id|>"}, LLAMA3},
    {"llama3", {"<|start_header_id|>", "<|eot_id|>"},
     {"Cutting Knowledge Date", "function", "think", "UNSAFE"},
     .system = {LLAMA3_HEAD("system"), "<|eot_id|>"}, LLAMA3},
    {"llama2", {"[INST]", "<<SYS>>", "bos_token + '[INST] '", ".strip()"},
     .flags = TRIM_TURNS | FIRST, .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .user = {BOS "[INST] ", " [/INST]"}, .assistant = {" ", " " EOS}},

    {"mistral-v7", {"[SYSTEM_PROMPT] ", "[INST] "}, .flags = VKI_CHAT_MERGE_TURNS, .begin = BOS,
     .system = {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"}, .user = {"[INST] ", "[/INST]"},
     .assistant = {" ", EOS}},
    {"mistral-v7-tekken", {"[SYSTEM_PROMPT]", "[INST]"}, {"[THINK]"}, .flags = VKI_CHAT_MERGE_TURNS,
     .begin = BOS, .system = {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}, .user = {"[INST]", "[/INST]"},
     .assistant = {"", EOS}},
    {"mistral-v3-tekken", {"'[INST]' + message['content'] + '[/INST]'"}, .flags = LAST,
     .begin = BOS, SYSTEM_IN_USER, .user = {"[INST]", "[/INST]"}, .assistant = {"", EOS}},
    {"mistral-v3", {"'[INST] ' + message['content'] + '[/INST]'", "' ' + message['content']|trim"},
     .flags = VKI_CHAT_TRIM_ASSISTANT | LAST, .begin = BOS, SYSTEM_IN_USER,
     .user = {"[INST] ", "[/INST]"}, .assistant = {" ", EOS}},
    {"mistral-v3", {"'[INST] ' + message['content'] + '[/INST]'", "' ' + message['content']"},
     .flags = LAST, .begin = BOS, SYSTEM_IN_USER, .user = {"[INST] ", "[/INST]"},
     .assistant = {" ", EOS}},
    {"mistral-v3", {"{{ '[INST] ' }}", "{{ message['content'] }}{{ '[/INST]' }}"}, .flags = LAST,
     .begin = BOS, SYSTEM_IN_USER, .user = {"[INST] ", "[/INST]"}, .assistant = {"", EOS}},
    {"mistral-v1", {"' [INST] ' + message['content'] + ' [/INST]'", "' ' + message['content']"},
     {"<<SYS>>"}, .flags = FIRST, .begin = BOS, SYSTEM_IN_USER, .user = {" [INST] ", " [/INST]"},
     .assistant = {" ", EOS}},
    {"mistral-v0.1", {"'[INST] ' + message['content'] + ' [/INST]'", "eos_token + ' '"},
     {"<<SYS>>"}, .flags = FIRST, .begin = BOS, SYSTEM_IN_USER, .user = {"[INST] ", " [/INST]"},
     .assistant = {"", EOS " "}},
    {"mistral-v0.2",
     {"'[INST] ' + message['content'] + ' [/INST]'", "{{ message['content'] + eos_token"},
     {"<<SYS>>"}, .flags = FIRST, .begin = BOS, SYSTEM_IN_USER, .user = {"[INST] ", " [/INST]"},
     .assistant = {"", EOS}},

    {"gemma", {"<start_of_turn>", "<end_of_turn>", "model"}, .flags = TRIM_TURNS | FIRST,
     .begin = BOS, SYSTEM_IN_USER, .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
     .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n"}, .reply = "<start_of_turn>model\n"},

    {"phi3-first", {PHI3_FIRST_USER, "<|system|>"}, .flags = VKI_CHAT_BOS_IF_NAMED,
     .system = PHI3_TURN("system"), PHI3},
    {"phi3-first", {PHI3_FIRST_USER}, .flags = VKI_CHAT_BOS_IF_NAMED | VKI_CHAT_SYSTEM_FIRST,
     SYSTEM_IN_USER, PHI3},
    {"phi3", {"'<|user|>\n' + message['content'] + '<|end|>\n'"}, .flags = VKI_CHAT_BOS_IF_NAMED,
     .system = PHI3_TURN("system"), PHI3},
    {"phi3", {"'<|' + message['role'] + '|>' + '\n' + message['content'] + '<|end|>\n'"},
     .flags = VKI_CHAT_BOS_IF_NAMED, .system = PHI3_TURN("system"), PHI3},
    {"phi4-mini", {"'<|' + message['role'] + '|>'", "'<|end|>'", "'<|assistant|>'"},
     {"Your name is"}, .system = {"<|system|>", "<|end|>"}, .user = {"<|user|>", "<|end|>"},
     .assistant = {"<|assistant|>", "<|end|>"}, .reply = "<|assistant|>"},
    {"zephyr", {"'<|user|>\n' + message['content'] + eos_token", "<|assistant|>"},
     .system = {"<|system|>\n", EOS "\n"}, .user = {"<|user|>\n", EOS "\n"},
     .assistant = {"<|assistant|>\n", EOS "\n"}, .reply = "<|assistant|>\n"},
    {"olmo2", {"'<|user|>\n' + message['content'] + '\n'", "message['content'] + eos_token + '\n'"},
     .flags = VKI_CHAT_BOS_IF_NAMED, .system = {"<|system|>\n", "\n"}, .user = {"<|user|>\n", "\n"},
     .assistant = {"<|assistant|>\n", EOS "\n"}, .reply = "<|assistant|>\n"},
    {"glm4", {"[gMASK]<sop>", "<|assistant|>\n{% endif %}"}, {"think>"}, GLM4,
     .reply = "<|assistant|>\n"},
    {"glm4", {"[gMASK]<sop>", "<|assistant|>"}, {"think>"}, GLM4, .reply = "<|assistant|>"},

    {"deepseek-v3.1", {DEEPSEEK_USER, "'" DEEPSEEK_ASSISTANT "</think>'"}, DEEPSEEK("</think>"),
     .reply = DEEPSEEK_ASSISTANT "</think>"},
    {"deepseek-r1", {DEEPSEEK_USER, "'" DEEPSEEK_ASSISTANT "<think>\n'"}, DEEPSEEK(""),
     .reply = DEEPSEEK_ASSISTANT "<think>\n"},
    {"deepseek-v3", {DEEPSEEK_USER, DEEPSEEK_ASSISTANT},
     {DEEPSEEK_ASSISTANT "</think>", DEEPSEEK_ASSISTANT "<think>"}, DEEPSEEK(""),
     .reply = DEEPSEEK_ASSISTANT},
    {"deepseek-v2",
     {"'User: ' + message['content'] + '\n\n'", "'Assistant: ' + message['content'] + eos_token"},
     .begin = BOS, .system = {"", "\n\n"}, .user = {"User: ", "\n\n"},
     .assistant = {"Assistant: ", EOS}, .reply = "Assistant:"},
    {"deepseek-coder", {"will refuse to answer\n'", "### Instruction:", "### Response:", "<|EOT|>"},
     .begin = BOS, .default_system = DEEPSEEK_CODER, .system = {"", ""},
     .user = {"### Instruction:\n", "\n"}, .assistant = {"### Response:\n", "\n<|EOT|>\n"},
     .reply = "### Response:\n"},

    {"granite-3.3", {"<|start_of_role|>", "Knowledge Cutoff Date: April 2024. Today's Date: "},
     .default_system = GRANITE_DATED(" "), GRANITE},
    {"granite-3.1", {"<|start_of_role|>", "Knowledge Cutoff Date: April 2024.\nToday's Date: "},
     .default_system = GRANITE_DATED("\n"), GRANITE},
    {"granite-3.0", {"<|start_of_role|>", "<|end_of_role|>"},
     {"Knowledge Cutoff Date", "default_system", "<|system|>", "risk"}, GRANITE},
};
/* clang-format on */

/* Whether the text begins with `words`, as Jinja sees it: a newline in a string may also be written
 * as backslash n, and both quotes are the same. */
static bool begins_with(const char *text, size_t len, const char *words)
{
    for (; *words; words++) {
        if (len == 0) return false;
        const bool escaped = *words == '\n' && *text == '\\' && len >= 2 && text[1] == 'n';
        const bool quote = *words == '\'' && *text == '"';
        if (*text != *words && !escaped && !quote) return false;
        text += escaped ? 2 : 1;
        len -= escaped ? 2 : 1;
    }
    return true;
}

bool vki_chat_mentions(vki_string chat_template, const char *words)
{
    const char *text = chat_template.text;
    size_t left = chat_template.len;
    for (; left; text++, left--)
        if (begins_with(text, left, words)) return true;
    return false;
}

static bool fits(const vki_chat_family *family, vki_string chat_template)
{
    enum { N_MARKS = sizeof family->marks / sizeof *family->marks };
    for (size_t i = 0; i < N_MARKS; i++) {
        if (family->marks[i] && !vki_chat_mentions(chat_template, family->marks[i])) return false;
        if (family->strangers[i] && vki_chat_mentions(chat_template, family->strangers[i]))
            return false;
    }
    return true;
}

const vki_chat_family *vki_chat_find(vki_string chat_template)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (fits(&families[i], chat_template)) return &families[i];
    return NULL;
}
