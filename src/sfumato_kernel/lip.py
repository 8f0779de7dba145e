from sfumato_kernel.laws import Law
from fractions import Fraction
def lip_over_ball(law, counts, radius, z):
    return False
