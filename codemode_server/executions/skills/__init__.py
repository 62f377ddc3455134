"""Skills: saved programs that other programs import as `skills.<name>`.

project_skills    those that people put into the project's folder
store             those that programs of one principal saved: accepted ones and proposals
skill_source      what is known of a skill from its text alone
skill_file        the file of one of them: a readable header and the text
rules             what a program may save
library           what one session sees of all of these
program_skills    what a program imports and saves, and what becomes of that when it ends
"""
