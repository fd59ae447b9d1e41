/* game_script.c - see game_script.h. */
#include "game_script.h"

const persona script_personas[SPEAKERS] = {
    {"Orla", 0x8A4B12},
    {"Mo 墨", 0xB03A1C},
};

const opening script_openings[] = {
    {OWL, false, "Look, Mo, the northern lights are back. What do you think makes them glow?"},
    {FOX, true, "湖水像镜子一样，月亮就在水里。你说，鱼会做梦吗？"},
    {OWL, false, "The village smells of fresh bread tonight. What would you eat first?"},
    {OWL, true, "今晚的星星真亮。你最喜欢哪一颗？为什么？"},
    {FOX, false, "Tell me a story, Orla. What is the farthest place you have ever flown to?"},
    {FOX, true, "山那边有什么？我们明天一起去看看，好不好？"},
};
const size_t script_n_openings = sizeof script_openings / sizeof *script_openings;

const char *script_instruction(int speaker, bool chinese)
{
    static const char *const english[SPEAKERS] = {
        "You are Orla, an old owl who knows the stars and loves riddles. You sit by a lake at night and talk with "
        "your friend Mo, a young fox. Answer Mo in one or two short sentences.",
        "You are Mo, a young fox who is playful, curious and always hungry. You sit by a lake at night and talk with "
        "your friend Orla, an old owl. Answer Orla in one or two short sentences.",
    };
    static const char *const in_chinese[SPEAKERS] = {
        "你是猫头鹰奥拉，年老而聪明，认识天上的每一颗星星。夜里，你在湖边和朋友小狐狸墨聊天。请用一两句简短的中文回答。",
        "你是小狐狸墨，活泼好奇，总是肚子饿。夜里，你在湖边和朋友猫头鹰奥拉聊天。请用一两句简短的中文回答。",
    };
    return chinese ? in_chinese[speaker] : english[speaker];
}
