/* The program: everything is in the table of commands. */
#include "cmd/command.h"

int main(int argc, char **argv)
{
    return command_main(argc, argv);
}
