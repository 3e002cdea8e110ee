! A simulation that trains a network while it runs, from Fortran: reaction.c with the same numbers.
!
! u(x, t) spreads and grows: du/dt = D u_xx + r(u), with r(u) = u (1 - u) (Fisher 1937). In the
! first half of the time loop a network learns r from the values at the grid's points. In the
! second half it stands for r, and is compared with it.
!
!   reaction reaction.pt2
program reaction
  use lathe
  implicit none
  integer, parameter :: points = 64, steps = 4000
  real(real64), target :: u(points, 1), r(points, 1)
  real(real64), pointer :: values(:, :)
  real(real64) :: exact(points, 1)
  real(c_double) :: loss
  type(c_ptr) :: model, optimizer, input, target_, data, outputs(1)
  character(1000) :: path
  integer :: step

  if (command_argument_count() /= 1) error stop "usage: reaction reaction.pt2"
  call get_command_argument(1, path)
  call start(u)

  ! Tensors over the arrays: nothing is copied in the loop.
  call lathe_check(lathe_wrap(u, input))
  call lathe_check(lathe_wrap(r, target_))
  call lathe_check(lathe_model_load(trim(path)//c_null_char, model))
  call lathe_check(lathe_optimizer_new(model, "adam"//c_null_char, "lr=0.01"//c_null_char, optimizer))

  do step = 0, steps - 1
    r = u*(1 - u)
    call lathe_check(lathe_train_step(model, optimizer, "mse"//c_null_char, 1, [input], target_, loss))
    if (mod(step, 1000) == 0) write (*, '(a, i4, a, es24.16)') 'step ', step, '  loss ', loss
    call advance(u, r)
    if (mod(step, 200) == 199) call start(u)  ! as only the beginning teaches all values
  end do

  call lathe_check(lathe_model_set_training(model, 0))
  exact = u
  do step = 1, 200
    call advance(exact, exact*(1 - exact))
    call lathe_check(lathe_model_forward(model, 0, 1, [input], 1, outputs))
    call lathe_check(lathe_tensor_data(outputs(1), data))
    call c_f_pointer(data, values, [points, 1])
    call advance(u, values)
    call lathe_check(lathe_tensor_free(outputs(1)))
  end do
  write (*, '(a, es24.16)') 'largest difference after 200 steps with the network: ', maxval(abs(u - exact))

  call lathe_check(lathe_optimizer_free(optimizer))
  call lathe_check(lathe_model_free(model))
  call lathe_check(lathe_tensor_free(input))
  call lathe_check(lathe_tensor_free(target_))
  if (maxval(abs(u - exact)) >= 0.01) error stop "the network has not learned r"

contains

  subroutine start(u)
    real(real64), intent(out) :: u(points, 1)
    u = 0
    u(:8, 1) = 0.5_real64
  end subroutine

  ! One step of Euler's method, with the values of r at each point.
  subroutine advance(u, r)
    real(real64), intent(inout) :: u(points, 1)
    real(real64), intent(in) :: r(points, 1)
    real(real64), parameter :: dt = 0.01_real64, spread = 0.2_real64  ! D dt / dx²
    real(real64) :: next(points), left, right
    integer :: i
    do i = 1, points
      left = u(max(i - 1, 1), 1)
      right = u(min(i + 1, points), 1)
      next(i) = u(i, 1) + spread*((left - u(i, 1)) + (right - u(i, 1))) + dt*r(i, 1)
    end do
    u(:, 1) = next
  end subroutine

end program reaction
